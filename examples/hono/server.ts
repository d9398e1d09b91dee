import type { Server } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { createFleet } from 'sandman'
import { createApp } from 'sandman/web'
import { closeWhenTold } from '../previews/close.ts'
import { listen } from '../previews/listen.ts'
import { answer, type Preview, previewsOf } from '../previews/previews.ts'

/** A Hono app with previews that sleep, and Sandman below /sandman. The workers run elsewhere, on the same database. */
const { DATABASE_URL, REDIS_URL, SANDMAN_SECRET, PORT = '8080' } = process.env
if (!DATABASE_URL || !SANDMAN_SECRET) throw new Error('Set DATABASE_URL and SANDMAN_SECRET.')

const fleet = createFleet({ databaseUrl: DATABASE_URL, ...(REDIS_URL && { redisUrl: REDIS_URL }) })
const previews = previewsOf(fleet)
const stopping = new AbortController()
const sandman = createApp(fleet, {
  basePath: '/sandman',
  tokens: [{ name: 'app', scope: 'operate', secret: SANDMAN_SECRET }],
  stopping: stopping.signal,
})

const app = new Hono()
app.mount('/sandman', sandman.fetch)

/** Before these, your app checks that the project is theirs who ask: Sandman does not know your users. */
function route(method: 'GET' | 'POST', path: string, work: (project: string, click?: string) => Promise<Preview>) {
  app.on(method, `/projects/:project/preview${path}`, async (c) => {
    const { status, body } = await answer(() => work(c.req.param('project') as string, c.req.header('idempotency-key')))
    return Response.json(body, { status })
  })
}

route('GET', '', previews.look)
route('POST', '', previews.open)
route('POST', '/pause', previews.pause)
route('POST', '/rebuild', previews.rebuild)

const server = await listen(createAdaptorServer({ fetch: app.fetch }) as Server, Number(PORT))
closeWhenTold(server, fleet, stopping)
