import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createFleet } from 'sandman'
import { createApp } from 'sandman/web'

/** A Hono app with routes of its own, and Sandman below /sandman. The workers run elsewhere (`sandman worker`), on the same database. */
const { DATABASE_URL, REDIS_URL, SANDMAN_SECRET, PORT = '8080' } = process.env
if (!DATABASE_URL || !SANDMAN_SECRET) throw new Error('Set DATABASE_URL and SANDMAN_SECRET.')

const fleet = createFleet({ databaseUrl: DATABASE_URL, ...(REDIS_URL && { redisUrl: REDIS_URL }) })
const sandman = createApp(fleet, {
  basePath: '/sandman',
  tokens: [{ name: 'app', scope: 'operate', secret: SANDMAN_SECRET }],
})

const app = new Hono()
app.mount('/sandman', sandman.fetch)
// The app itself asks the fleet, and no HTTP.
app.post('/threads', async (c) => {
  const { sandbox } = await fleet.spawn({ backend: 'local', metadata: { kind: 'thread' } })
  return c.json({ thread: sandbox.id }, 201)
})

const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' }, ({ port }: AddressInfo) =>
  console.log(`http://127.0.0.1:${port}`),
)

process.once('SIGTERM', () => {
  server.close(() => void fleet.close())
  if ('closeAllConnections' in server) server.closeAllConnections()
})
