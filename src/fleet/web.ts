import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { beginGrace } from '../grace.ts'
import { buildApp } from '../web/app.ts'
import type { Routes } from '../web/routes.ts'
import type { Fleet } from './fleet.ts'
import { layFoundation, type RunningConfig } from './foundation.ts'
import { openFleet } from './open-fleet.ts'
import { explainListenError } from './port.ts'
import { ttlOf } from './requests.ts'
import type { Running } from './shutdown.ts'
import { traced } from './tracing.ts'

/** How long a caller may take to say what it wants, and to send all of it. */
const HEADERS_MS = 15_000
const REQUEST_MS = 60_000
/** Longer than the proxies in front keep a connection that nobody uses: they are the ones to close it, or a request is lost. */
const IDLE_CONNECTION_MS = 75_000
const TIDY_MS = 50

export type WebParts = {
  /** Adds routes of its own to those that there always are. */
  more?: (routes: Routes, fleet: Fleet) => void
}

/** Serves the API, the console and Bull Board. It asks for work and looks at it; it never does any. */
export async function startWeb(
  config: RunningConfig,
  events: Events,
  parts: WebParts = {},
): Promise<Running & { url: string }> {
  return traced(config, { name: 'web', events }, (adjusted) => start(adjusted, events, parts))
}

async function start(config: RunningConfig, events: Events, { more }: WebParts): Promise<Running & { url: string }> {
  const { handle, store } = await layFoundation(config, { role: 'producer', name: 'web', events })
  const { databaseUrl, fleet: name, tokens, rateLimit, proxies, graceMs } = config
  const fleet = openFleet({ databaseUrl, fleet: name, ttl: ttlOf(config.ttl) }, { handle, store, events })
  const stopping = new AbortController()
  const { app, routes } = buildApp(fleet, { tokens, rateLimit, proxies, events, stopping: stopping.signal })
  more?.(routes, fleet)
  let server: Awaited<ReturnType<typeof listen>>
  try {
    server = await listen(app.fetch, config)
  } catch (error) {
    await fleet.close()
    throw error
  }
  const { address, port } = server.address() as AddressInfo
  const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}`
  events.emit('process.started', { url, store: store.where })

  return {
    url,
    /** Streams end now, and whoever waits is answered with what there is: a wait is a courtesy, and a deploy must not pay for it. */
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      const { workMs, msFor } = beginGrace(graceMs)
      const close = () => fleet.close(graceMs - workMs)
      const timers = [
        // Whoever has no answer by then is told so, and has some time to hear it.
        setTimeout(() => void close().catch(() => {}), workMs),
        setTimeout(() => server.closeAllConnections(), workMs + msFor('handingOver')),
      ]
      stopping.abort(new SandmanError('fleet_closed', 'This process stops.'))
      fleet.stopWaiting()
      // Who has been answered may keep the connection for the next question; there is none here.
      const tidying = setInterval(() => server.closeIdleConnections(), TIDY_MS)
      server.closeIdleConnections()
      await closed
      clearInterval(tidying)
      for (const timer of timers) clearTimeout(timer)
      await close()
    },
  }
}

type HttpServer = import('node:http').Server

function listen(fetch: Parameters<typeof serve>[0]['fetch'], config: RunningConfig): Promise<HttpServer> {
  const { host: hostname, port } = config
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, port, hostname }, () => resolve(server)) as HttpServer
    server.headersTimeout = HEADERS_MS
    server.requestTimeout = REQUEST_MS
    server.keepAliveTimeout = IDLE_CONNECTION_MS
    server.once('error', (error: NodeJS.ErrnoException) => reject(explainListenError(error, config)))
  })
}
