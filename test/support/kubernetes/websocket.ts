import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Duplex } from 'node:stream'

/** As much of `ws` as is needed here; it comes with the SDK, and has no types of its own. */
export type Socket = {
  readonly protocol: string
  readonly readyState: number
  send(data: Uint8Array, done: (error?: Error) => void): void
  close(code?: number): void
  terminate(): void
  pause(): void
  resume(): void
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): void
  on(event: 'close', listener: () => void): void
  on(event: 'error', listener: (error: Error) => void): void
}

type SocketServer = {
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, done: (socket: Socket) => void): void
}
type Options = { noServer: true; perMessageDeflate: false; handleProtocols(offered: Set<string>): string | false }

const { WebSocketServer } = createRequire(import.meta.url)('ws') as {
  WebSocketServer: new (options: Options) => SocketServer
}

export const EXEC_PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io']

/** Turns connections into sockets of the newest protocol that both sides speak. */
export function socketServer(protocols: readonly string[]): SocketServer {
  return new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    handleProtocols: (offered) => protocols.find((one) => offered.has(one)) ?? false,
  })
}
