// Printed from README.md.
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createFleet } from 'sandman'

const fleet = createFleet({ databaseUrl: process.env.DATABASE_URL as string })
const app = new Hono()

app.post('/previews', async (c) => c.json((await fleet.spawn({ backend: 'local', wait: '30s' })).sandbox, 201))
app.post('/previews/:id/pause', async (c) => c.json((await fleet.pause(c.req.param('id'), { wait: '30s' })).sandbox))
app.post('/previews/:id/resume', async (c) => {
  const { operation, sandbox } = await fleet.resume(c.req.param('id'), { wait: '60s' })
  switch (operation.error?.errorType) {
    case undefined: return c.json(sandbox) // awake, and seen to answer; or after a minute still on its way
    case 'sandbox_unreachable': return c.json({ offer: 'retry' }, 503)
    case 'sandbox_expired': case 'checkpoint_missing': case 'checkpoint_corrupt': case 'sandbox_gone':
      return c.json({ offer: 'rebuild', because: operation.error.message }, 410)
    default: return c.json({ error: operation.error?.message }, 502)
  }
})

const port = Number(process.env.PORT ?? 8080)
serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (at) => console.log(`http://127.0.0.1:${at.port}`))
