import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Gate } from '../gate.ts'
import { Holds } from '../holds.ts'
import { ScriptedFaults } from '../scripted-faults.ts'
import { type Body, type Fault, type Method, type Reply, read, send } from './calls.ts'
import { Cloud } from './cloud.ts'
import { HONEST } from './conduct.ts'
import { perform } from './perform.ts'
import { type Attach, stream } from './stream.ts'

/**
 * A provider of sandboxes as an HTTP server of its own, whose state outlives every worker: what is true is what it has, and
 * what it says may be something else. `test-backend.ts` is its client.
 */
export class FakeProvider extends Cloud {
  readonly #server: Server
  readonly #faults = new ScriptedFaults<Method, Fault>()
  readonly #arrivals = new Holds<Method>()
  readonly #attempts = new Map<Method, number>()

  private constructor(server: Server) {
    super()
    this.#server = server
  }

  static async start(): Promise<FakeProvider> {
    const server = createServer()
    const provider = new FakeProvider(server)
    server.on('request', (request, response) => {
      provider.#serve(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return provider
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** The next calls of this method meet these, one each. */
  next(method: Method, ...faults: Fault[]): void {
    this.#faults.next(method, faults)
  }

  /** Until it is healed. */
  always(method: Method, fault: Fault): void {
    this.#faults.always(method, fault)
  }

  heal(): void {
    this.#faults.heal()
  }

  /** As at the beginning, but for what it has. */
  becomeHonest(): void {
    this.heal()
    Object.assign(this, HONEST)
  }

  /** Calls of this method stop here before they are performed, until the gate is opened. */
  holdAt(method: Method): Gate {
    const held = this.#arrivals.hold(method)
    onTestFinished(held.open)
    return held
  }

  /** The next call of this method, and only that, is on its way until the gate is opened. */
  holdOnceAt(method: Method): Gate {
    const held = this.#arrivals.holdOnce(method)
    onTestFinished(held.open)
    return held
  }

  /** How often it was called, also where that met a fault. */
  attempts(method: Method): number {
    return this.#attempts.get(method) ?? 0
  }

  count(method: Method, ref?: string): number {
    return this.performed.filter((call) => call.method === method && (ref === undefined || call.ref === ref)).length
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, what, name = ''] = new URL(request.url ?? '/', 'http://x').pathname.split('/')
    if (what === 'preview') {
      const isUp = this.instances.get(decodeURIComponent(name))?.state === 'running'
      response.writeHead(isUp ? this.previewStatus : 502).end('hello')
      return
    }
    const method = name as Method
    const body = JSON.parse(await read(request)) as Body
    this.#attempts.set(method, this.attempts(method) + 1)
    await this.#arrivals.reach(method)
    const isAway = method === 'look' && this.failsFor(String(body.ref))
    const away = isAway ? ({ kind: 'status', status: 503 } as const) : undefined
    const fault = away ?? this.#faults.take(method)
    const performs = !fault || ('performed' in fault && fault.performed)
    if (performs && !fault && method === 'attach') return stream(this, response, body as unknown as Attach)
    const reply = performs ? perform(this, method, body) : undefined
    switch (fault?.kind) {
      case 'hang':
        return
      case 'cut':
        request.socket.destroy()
        return
      case 'plain 404':
        response.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found')
        return
      case 'status':
        response.writeHead(fault.status).end('something went wrong')
        return
      case 'lie':
        send(response, { result: null })
        return
      case 'error':
        send(response, { error: fault })
        return
      default:
        send(response, reply as Reply)
    }
  }
}
