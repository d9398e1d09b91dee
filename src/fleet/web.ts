import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { createApp } from '../web/app.ts'
import { createFleet } from './fleet.ts'
import { layFoundation, type RunningConfig } from './foundation.ts'
import { beforeClosing, type Running } from './shutdown.ts'

/** Serves the API, the console and Bull Board. It asks for work and looks at it; it never does any. */
export async function startWeb(config: RunningConfig, events: Events): Promise<Running & { url: string }> {
  const { handle, store } = await layFoundation(config, { role: 'producer', name: 'web', events })
  const { databaseUrl, fleet: name, tokens } = config
  const fleet = createFleet({ databaseUrl, fleet: name }, { handle, store, events })
  const app = createApp(fleet, { tokens, events })
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
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      // Requests that outlast the grace period are cut, so that the process ends within it.
      const cut = setTimeout(() => server.closeAllConnections(), beforeClosing(config.graceMs))
      server.closeIdleConnections()
      await closed
      clearTimeout(cut)
      await fleet.close()
    },
  }
}

type HttpServer = import('node:http').Server

function listen(fetch: Parameters<typeof serve>[0]['fetch'], { host, port }: RunningConfig): Promise<HttpServer> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, port, hostname: host }, () => resolve(server)) as HttpServer
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
