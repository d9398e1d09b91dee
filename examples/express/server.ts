import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import { createFleet } from 'sandman'
import { createApp } from 'sandman/web'

/** An Express app with routes of its own, and Sandman below /sandman. The workers run elsewhere (`sandman worker`), on the same database. */
const { DATABASE_URL, REDIS_URL, SANDMAN_SECRET, PORT = '8080' } = process.env
if (!DATABASE_URL || !SANDMAN_SECRET) throw new Error('Set DATABASE_URL and SANDMAN_SECRET.')

const fleet = createFleet({ databaseUrl: DATABASE_URL, ...(REDIS_URL && { redisUrl: REDIS_URL }) })
const sandman = createApp(fleet, {
  basePath: '/sandman',
  tokens: [{ name: 'app', scope: 'operate', secret: SANDMAN_SECRET }],
})

const app = express()
// Before anything that reads bodies: Sandman reads its own.
app.use('/sandman', getRequestListener(sandman.fetch))
app.use(express.json())

// The app itself asks the fleet, and no HTTP.
app.post('/threads', async (_request, response) => {
  const { sandbox } = await fleet.spawn({ backend: 'local', metadata: { kind: 'thread' } })
  response.status(201).json({ thread: sandbox.id })
})

const server = app.listen(Number(PORT), '127.0.0.1')
await once(server, 'listening')
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)

process.once('SIGTERM', () => {
  server.close(() => void fleet.close())
  server.closeAllConnections()
})
