import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { createApp } from '../web/app.ts'
import { createFleet } from './fleet.ts'
import { layFoundation, type RunningConfig } from './foundation.ts'
import { ttlOf } from './requests.ts'
import { beforeClosing, type Running } from './shutdown.ts'
import { traced } from './tracing.ts'

/** How long a caller may take to say what it wants, and to send all of it. */
const HEADERS_MS = 15_000
const REQUEST_MS = 60_000
/** Longer than the proxies in front keep a connection that nobody uses: they are the ones to close it, or a request is lost. */
const KEEP_ALIVE_MS = 75_000
/** Whoever still waits at the end of the grace period is told so this long before their connection is cut. */
const LAST_WORD_MS = 1_000
const TIDY_MS = 50

/** Serves the API, the console and Bull Board. It asks for work and looks at it; it never does any. */
export async function startWeb(config: RunningConfig, events: Events): Promise<Running & { url: string }> {
  return traced(config, { name: 'web', events }, (adjusted) => start(adjusted, events))
}

async function start(config: RunningConfig, events: Events): Promise<Running & { url: string }> {
  const { handle, store } = await layFoundation(config, { role: 'producer', name: 'web', events })
  const { databaseUrl, fleet: name, tokens, rateLimit, proxies, graceMs } = config
  const fleet = createFleet({ databaseUrl, fleet: name, ttl: ttlOf(config.ttl) }, { handle, store, events })
  const stopping = new AbortController()
  const app = createApp(fleet, { tokens, rateLimit, proxies, events, stopping: stopping.signal })
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
      const cutMs = beforeClosing(graceMs)
      const timers = [
        setTimeout(() => void fleet.close().catch(() => {}), Math.max(0, cutMs - LAST_WORD_MS)),
        setTimeout(() => server.closeAllConnections(), cutMs),
      ]
      stopping.abort(new SandmanError('fleet_closed', 'This process stops.'))
      fleet.stopWaiting()
      // Who has been answered may keep the connection for the next question; there is none here.
      const tidying = setInterval(() => server.closeIdleConnections(), TIDY_MS)
      server.closeIdleConnections()
      await closed
      clearInterval(tidying)
      for (const timer of timers) clearTimeout(timer)
      await fleet.close()
    },
  }
}

type HttpServer = import('node:http').Server

function listen(fetch: Parameters<typeof serve>[0]['fetch'], { host, port }: RunningConfig): Promise<HttpServer> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, port, hostname: host }, () => resolve(server)) as HttpServer
    server.headersTimeout = HEADERS_MS
    server.requestTimeout = REQUEST_MS
    server.keepAliveTimeout = KEEP_ALIVE_MS
    server.once('error', (error: NodeJS.ErrnoException) => reject(explainListenError(error, host, port)))
  })
}

function explainListenError(error: NodeJS.ErrnoException, host: string, port: number): unknown {
  if (error.code === 'EADDRINUSE') {
    return new SandmanError(
      'port_taken',
      `Port ${port} on ${host} is taken by another program: stop it, or set PORT to a free one (PORT=${port + 1}).`,
      { cause: error },
    )
  }
  if (error.code === 'EACCES') {
    return new SandmanError(
      'port_taken',
      `Port ${port} on ${host} may not be used by this user: set PORT to one above 1023.`,
      { cause: error },
    )
  }
  return error
}
