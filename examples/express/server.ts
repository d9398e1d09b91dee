import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import express, { type Request, type Response } from 'express'
import { createFleet } from 'sandman'
import { createApp } from 'sandman/web'
import { closeWhenTold } from '../previews/close.ts'
import { listen } from '../previews/listen.ts'
import { answer, type Preview, previewsOf } from '../previews/previews.ts'

/** An Express app with previews that sleep, and Sandman below /sandman. The workers run elsewhere, on the same database. */
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

const app = express()
// Before anything that reads bodies: Sandman reads its own.
app.use('/sandman', getRequestListener(sandman.fetch))
app.use(express.json())

/** Before these, your app checks that the project is theirs who ask: Sandman does not know your users. */
const serve =
  (work: (project: string, click?: string) => Promise<Preview>) =>
  async (request: Request<{ project: string }>, response: Response) => {
    const { status, body } = await answer(() => work(request.params.project, request.get('idempotency-key')))
    response.status(status).json(body)
  }

app.get('/projects/:project/preview', serve(previews.look))
app.post('/projects/:project/preview', serve(previews.open))
app.post('/projects/:project/preview/pause', serve(previews.pause))
app.post('/projects/:project/preview/rebuild', serve(previews.rebuild))

const server = await listen(createServer(app), Number(PORT))
closeWhenTold(server, fleet, stopping)
