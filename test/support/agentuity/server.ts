import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Gate } from '../gate.ts'
import { Holds } from '../holds.ts'
import { leaveUnanswered, ScriptedFaults } from '../scripted-faults.ts'
import { Cloud, type Phase } from './cloud.ts'
import { answerTo, type Fault, isPerformed, type PauseFate } from './faults.ts'
import { findProcesses } from './machine.ts'
import { perform } from './perform.ts'
import { ApiError, type Reply, send } from './replies.ts'
import { match, type Route } from './routes.ts'

/** What was asked, in the order in which it came. */
type Asked = {
  route: Route
  name: string
  body: Record<string, unknown>
  query: URLSearchParams
  isPerformed: boolean
}

/**
 * Agentuity on this machine, over HTTP: its API, its streams and its sandboxes, which are folders and real processes. It does what
 * the service is known to do, and goes wrong on command in every way that it is known to have gone wrong in.
 */
export class FakeAgentuity {
  readonly apiKey: string
  readonly requests: Asked[] = []
  readonly cloud: Cloud
  readonly #server: Server
  readonly #root: string
  readonly #faults = new ScriptedFaults<Route, Fault>()
  readonly #arrivals = new Holds<Route>()
  readonly #answers = new Holds<Route>()
  readonly #phases = new Holds<Phase>()
  readonly #underWay = new Set<Promise<void>>()
  /** What is shown of a sandbox instead of what is true. */
  readonly #pretences = new Map<string, object>()

  private constructor(server: Server, root: string, apiKey: string) {
    this.apiKey = apiKey
    this.#server = server
    this.#root = root
    this.cloud = new Cloud(root, (phase) => this.#phases.reach(phase))
    server.on('request', (request, response) => {
      const work = this.#serve(request, response).finally(() => this.#underWay.delete(work))
      this.#underWay.add(work)
    })
  }

  static async start({ apiKey = 'agentuity_test' } = {}): Promise<FakeAgentuity> {
    const root = await mkdtemp(path.join(os.tmpdir(), 'fake-agentuity-'))
    // One that is kept for the next call is not closed under it.
    const server = createServer({ keepAliveTimeout: 600_000 })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new FakeAgentuity(server, root, apiKey)
  }

  /** Nothing of it is left: no process, no folder, nobody who waits. */
  async stop(): Promise<void> {
    for (const holds of [this.#arrivals, this.#answers, this.#phases]) holds.openAll()
    for (const { machine } of this.cloud.boxes.values()) await machine.destroy()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await Promise.allSettled(this.#underWay)
    await rm(this.#root, { recursive: true, force: true })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** What a backend has to be given. */
  get connection(): { apiKey: string; url: string } {
    return { apiKey: this.apiKey, url: this.url }
  }

  // What goes wrong.

  /** The next calls of this route meet these, one each. */
  next(route: Route, ...faults: Fault[]): void {
    this.#faults.next(route, faults)
  }

  /** Until it is healed. */
  always(route: Route, fault: Fault): void {
    this.#faults.always(route, fault)
  }

  heal(): void {
    this.#faults.heal()
    this.#pretences.clear()
  }

  /** It is shown with this, whatever is true. */
  pretend(id: string, shown: object): void {
    this.#pretences.set(id, shown)
  }

  /** Its machine is needed for something else, and it is put to sleep. */
  evacuate(id: string, fate?: PauseFate): Promise<void> {
    return this.cloud.evacuate(this.cloud.find(id), fate)
  }

  terminate(id: string, exitCode = 137): Promise<void> {
    return this.cloud.terminate(this.cloud.find(id), exitCode)
  }

  /** What it could be resumed from is gone, and nobody is told. */
  loseCheckpoint(id: string): void {
    this.cloud.find(id).saved = undefined
  }

  /** All that was told of it happened so much earlier. */
  age(id: string, ms: number): void {
    const box = this.cloud.find(id)
    const earlier = (at: string) => new Date(Date.parse(at) - ms).toISOString()
    box.events = box.events.map((told) => ({ ...told, createdAt: earlier(told.createdAt) }))
  }

  // When it happens.

  /** Calls of this route wait before anything is done. */
  holdAt(route: Route): Gate {
    return this.#arrivals.hold(route)
  }

  /** Only the next call of this route does. */
  holdOnceAt(route: Route): Gate {
    return this.#arrivals.holdOnce(route)
  }

  /** Changes of this kind stop in their middle, whoever began them. */
  holdWhile(phase: Phase): Gate {
    return this.#phases.hold(phase)
  }

  // What is true.

  count(route: Route, name?: string): number {
    return this.requests.filter((one) => one.route === route && (name === undefined || one.name === name)).length
  }

  statusOf(id: string): string | undefined {
    return this.cloud.boxes.get(id)?.status
  }

  folderOf(id: string): string {
    return path.join(this.#root, 'sandboxes', id)
  }

  /** Every process of it, also those that stand still. */
  pidsOf(id: string): number[] {
    return findProcesses(id).map(({ pid }) => pid)
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#exchange(request, response)
    } catch (error) {
      if (response.headersSent || response.destroyed) response.destroy()
      else send(response, { status: 500, body: { success: false, message: String(error) } })
    }
  }

  /** A call and its answer, with all that may happen to either. */
  async #exchange(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://x')
    const body = await readJson(request)
    const found = match(request.method ?? 'GET', pathname)
    if (!found) return send(response, { status: 404, body: '404 page not found' })
    const { route, name } = found
    const asked: Asked = { route, name, body, query, isPerformed: false }
    this.requests.push(asked)
    await this.#arrivals.reach(route)
    const fault = this.#faults.take(route)
    asked.isPerformed = isPerformed(fault)
    const url = `http://${request.headers.host}`
    const reply = asked.isPerformed ? await this.#perform({ ...found, body, query, url, fault }, request) : undefined
    await this.#answers.reach(route)
    const instead = answerTo(fault) ?? reply
    if (instead === undefined || instead === 'silence') return leaveUnanswered(request, fault)
    send(response, instead)
  }

  /** Failures are answers too. */
  async #perform(asking: Parameters<typeof perform>[1], { headers }: IncomingMessage): Promise<Reply> {
    const { route, name } = asking
    try {
      // Whoever knows the address of a stream may read it.
      if (route !== 'stream' && headers.authorization !== `Bearer ${this.apiKey}`)
        throw new ApiError(401, 'Invalid API key')
      const reply = await perform(this.cloud, asking)
      const pretence = this.#pretences.get(name)
      if (route !== 'get' || !pretence || !('body' in reply)) return reply
      const { data } = reply.body as { data: object }
      return { status: 200, body: { success: true, data: { ...data, ...pretence } } }
    } catch (error) {
      if (error instanceof ApiError) return error.reply
      throw error
    }
  }
}

/** Also where nothing was sent, as with most of what is told to be done. */
async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
}
