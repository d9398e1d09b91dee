import { once } from 'node:events'
import http from 'node:http'
import type net from 'node:net'
import type { Duplex } from 'node:stream'

/** What may happen on the way to a provider and back. */
export type WireFault =
  /** It is taken, and never answered. */
  | { kind: 'hang' }
  /** The connection is reset before the provider hears of it. */
  | { kind: 'cut' }
  /** The provider does it, and the connection is reset instead of its answer. */
  | { kind: 'lost answer' }
  /** Somebody on the way answers, and the provider hears nothing. */
  | { kind: 'answer'; status: number; type: string; body: string }
  /** The connection is reset after so many bytes of what the provider answers. */
  | { kind: 'cut after'; bytes: number }

/**
 * An HTTP proxy in front of a provider that fails on command: on the wire, where providers fail, so that the backend and its
 * SDK are tried as they are.
 */
export type Wire = {
  /** Where a backend has to look for its provider. */
  readonly url: string
  readonly port: number
  /** How many requests have come. */
  readonly requests: number
  /** How many of them have met a fault. */
  readonly met: number
  /** Every request that comes from now on meets this, or those for which `when` says so. */
  fail(fault: WireFault, when?: (request: { method: string; path: string }) => boolean): void
  heal(): void
  /** Returns once a request has met the fault that was set last. */
  struck(): Promise<void>
  close(): Promise<void>
}

/** `target` is where the provider is: `http://host:port`, or `unix:/path/of/a/socket`. */
export async function startWire(target: string): Promise<Wire> {
  const upstream = addressOf(target)
  // Long answers are long: nothing here gives up by itself.
  const server = http.createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 })
  const sockets = new Set<net.Socket>()
  let fault: WireFault | undefined
  let applies: (request: { method: string; path: string }) => boolean = () => true
  let requests = 0
  let met = 0
  let strike = Promise.withResolvers<void>()

  function faultOf({ method = '', url = '' }: http.IncomingMessage): WireFault | undefined {
    requests++
    if (!fault || !applies({ method, path: url })) return undefined
    met++
    strike.resolve()
    return fault
  }
  const ask = ({ method, url, headers }: http.IncomingMessage) =>
    http.request({ ...upstream, method, path: url, headers, agent: false })

  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('request', (request, response) => {
    const meets = faultOf(request)
    if (meets?.kind === 'hang') return
    if (meets?.kind === 'cut') return reset(request.socket)
    if (meets?.kind === 'answer') {
      request.resume()
      response.writeHead(meets.status, { 'content-type': meets.type }).end(meets.body)
      return
    }
    const asked = ask(request)
    request.pipe(asked)
    // Whoever hangs up here hangs up there.
    response.on('close', () => asked.destroy())
    asked.on('error', () => reset(request.socket))
    asked.on('response', (answer) => {
      answer.on('error', () => reset(request.socket))
      if (meets?.kind === 'lost answer') {
        answer.resume().on('end', () => reset(request.socket))
        return
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      response.flushHeaders()
      if (meets?.kind === 'cut after') cutAfter(meets.bytes, answer, response, request.socket)
      else answer.pipe(response)
    })
  })
  // As when a command is run in a container: from then on the two talk in bytes.
  server.on('upgrade', (request, socket: Duplex, head) => {
    const meets = faultOf(request)
    if (meets?.kind === 'hang') return
    if (meets && meets.kind !== 'cut after') return void socket.destroy()
    const asked = ask(request)
    asked.on('error', () => socket.destroy())
    asked.on('response', (answer) => {
      socket.write(headOf(answer))
      answer.pipe(socket)
    })
    asked.on('upgrade', (answer, there, early) => {
      socket.write(headOf(answer))
      there.on('error', () => socket.destroy()).on('close', () => socket.destroy())
      socket.on('error', () => there.destroy()).on('close', () => there.destroy())
      if (head.length > 0) there.write(head)
      socket.pipe(there)
      if (early.length > 0) there.unshift(early)
      if (meets) cutAfter(meets.bytes, there, socket, socket as net.Socket)
      else there.pipe(socket)
    })
    asked.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get requests() {
      return requests
    },
    get met() {
      return met
    },
    fail(next, when = () => true) {
      fault = next
      applies = when
      strike = Promise.withResolvers()
    },
    heal() {
      fault = undefined
    },
    struck: () => strike.promise,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      if (server.listening) await once(server, 'close')
    },
  }
}

function addressOf(target: string): http.RequestOptions {
  if (target.startsWith('unix:')) return { socketPath: target.slice('unix:'.length).replace(/^\/\/(?=\/)/, '') }
  const { hostname, port } = new URL(target)
  return { host: hostname, port }
}

/** A reset, and not an orderly end: that is how networks fail. */
function reset(socket: net.Socket): void {
  socket.resetAndDestroy()
}

function cutAfter(bytes: number, from: NodeJS.ReadableStream, to: NodeJS.WritableStream, socket: net.Socket): void {
  let left = bytes
  from.on('data', (piece: Buffer) => {
    const part = piece.subarray(0, left)
    left -= part.length
    if (part.length > 0) to.write(part)
    if (left > 0) return
    from.removeAllListeners('data')
    // What was written has to get through first; a reset overtakes what is still in a buffer here.
    setImmediate(() => socket.destroy())
  })
  from.on('end', () => {
    if (left > 0) to.end() // what was cut does not come to an orderly end
  })
}

function headOf({ statusCode, statusMessage, rawHeaders }: http.IncomingMessage): string {
  let head = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n`
  for (let at = 0; at < rawHeaders.length; at += 2) head += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`
  return `${head}\r\n`
}
