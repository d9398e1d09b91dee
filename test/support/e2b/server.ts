import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Gate } from '../gate.ts'
import { Holds } from '../holds.ts'
import { ScriptedFaults } from '../scripted-faults.ts'
import { Cloud, type Phase } from './cloud.ts'
import { type Asked, type Desk, exchange } from './exchange.ts'
import type { Fault } from './faults.ts'
import type { Limits } from './limits.ts'
import { listed } from './lists.ts'
import { findProcesses } from './machine.ts'
import type { Listed } from './records.ts'
import { send } from './replies.ts'
import type { Route } from './routes.ts'

export type FakeE2bOptions = Partial<Limits> & {
  apiKey?: string
  /** Names of templates that there are besides `base`. */
  templates?: string[]
}

const LIMITS: Limits = { lifetimeMsMax: 24 * 3_600_000, sandboxesMax: 1_000, exitRetentionMs: 30_000 }
const EVICT_EVERY_MS = 50

/**
 * E2B on this machine, over HTTP: its API and its sandboxes, which are folders and real processes. It does what the service is known
 * to do, its races included, and goes wrong on command.
 *
 * Time passes by the system's clock; `advance` lets it jump.
 */
export class FakeE2b {
  readonly apiKey: string
  readonly requests: Asked[] = []
  readonly #server: Server
  readonly #root: string
  readonly #cloud: Cloud
  readonly #faults = new ScriptedFaults<Route, Fault>()
  readonly #arrivals = new Holds<Route>()
  readonly #answers = new Holds<Route>()
  readonly #desk: Desk
  readonly #phases = new Holds<Phase>()
  readonly #stopping = new AbortController()
  readonly #underWay = new Set<Promise<void>>()
  readonly #evictor: NodeJS.Timeout
  #aheadMs = 0

  private constructor(
    server: Server,
    root: string,
    { apiKey = 'e2b_test', templates = [], ...limits }: FakeE2bOptions,
  ) {
    this.apiKey = apiKey
    this.#server = server
    this.#root = root
    this.#cloud = new Cloud(
      root,
      { ...LIMITS, ...limits },
      () => this.nowMs,
      (phase) => this.#phases.reach(phase),
    )
    this.#desk = {
      apiKey,
      cloud: this.#cloud,
      faults: this.#faults,
      arrivals: this.#arrivals,
      answers: this.#answers,
      requests: this.requests,
      stopping: this.#stopping.signal,
    }
    for (const name of templates) this.#cloud.templates.addEmpty(name)
    this.#evictor = setInterval(() => this.#track(this.#cloud.evict()), EVICT_EVERY_MS).unref()
    server.on('request', (request, response) => this.#track(this.#serve(request, response)))
  }

  static async start(options: FakeE2bOptions = {}): Promise<FakeE2b> {
    const root = await mkdtemp(path.join(os.tmpdir(), 'fake-e2b-'))
    // One that is kept for the next call is not closed under it.
    const server = createServer({ keepAliveTimeout: 600_000 })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new FakeE2b(server, root, options)
  }

  /** Nothing of it is left: no process, no folder, nobody who waits. */
  async stop(): Promise<void> {
    clearInterval(this.#evictor)
    this.#stopping.abort()
    for (const holds of [this.#arrivals, this.#answers, this.#phases]) holds.openAll()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await Promise.allSettled(this.#underWay)
    for (const id of this.#cloud.live.keys()) await this.#cloud.lose(id)
    for (const id of this.#cloud.paused.keys()) await this.#cloud.forgetPause(id)
    await rm(this.#root, { recursive: true, force: true })
  }

  /** Of the API and of all sandboxes. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** What the SDK has to be given. */
  get connection(): { apiKey: string; apiUrl: string; sandboxUrl: string } {
    return { apiKey: this.apiKey, apiUrl: this.url, sandboxUrl: this.url }
  }

  previewUrl(id: string, port: number): string {
    return `${this.url}/preview/${port}/${id}`
  }

  // Time.

  get nowMs(): number {
    return Date.now() + this.#aheadMs
  }

  /** Returns when whatever has expired by then has ended, or has been paused. */
  async advance(ms: number): Promise<void> {
    this.#aheadMs += ms
    await this.#cloud.evict()
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
    for (const { vm } of this.#cloud.live.values()) vm.hasMemory = true
  }

  /** Its machine has died, and nobody is told. What an older pause has left can still be resumed. */
  lose(id: string): Promise<void> {
    return this.#cloud.lose(id)
  }

  /** What doomed pauses have left is gone. */
  loseUploads(): Promise<void> {
    return this.#cloud.loseDoomed()
  }

  /** All that runs in it is killed, and so is whatever is started in it until it is healed. The sandbox itself goes on. */
  async starve(id: string): Promise<void> {
    const { vm } = this.#live(id)
    vm.hasMemory = false
    await vm.killProcesses()
  }

  /** Every stream of it is cut. Nothing else happens to it. */
  cutStreams(id: string): void {
    this.#live(id).vm.cutStreams()
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

  /** Calls of this route are done, and not answered. */
  holdAnswersOf(route: Route): Gate {
    return this.#answers.hold(route)
  }

  /** Changes of this kind stop in their middle, whoever began them. */
  holdWhile(phase: Phase): Gate {
    return this.#phases.hold(phase)
  }

  // What is true.

  /** How often it was asked, also where that met a fault. */
  count(route: Route, name?: string): number {
    return this.requests.filter((one) => one.route === route && (name === undefined || one.name === name)).length
  }

  /** All that an honest list would show. */
  listed(): Listed[] {
    return listed(this.#cloud)
  }

  stateOf(id: string): 'running' | 'pausing' | 'killing' | 'snapshotting' | 'paused' | undefined {
    return this.#cloud.live.get(id)?.state ?? (this.#cloud.paused.has(id) ? 'paused' : undefined)
  }

  /** The home of a sandbox. */
  folderOf(id: string): string {
    return path.join(this.#root, 'sandboxes', id)
  }

  /** Every process of it, as this machine counts them, also those that stand still. */
  pidsOf(id: string): number[] {
    return findProcesses(id).map(({ pid }) => pid)
  }

  #live(id: string) {
    const live = this.#cloud.live.get(id)
    if (!live) throw new Error(`${id} does not run; it is ${this.stateOf(id) ?? 'not there'}`)
    return live
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#underWay.delete(tracked))
    this.#underWay.add(tracked)
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await exchange(this.#desk, request, response)
    } catch (error) {
      if (response.headersSent || response.destroyed) response.destroy()
      else send(response, { status: 500, body: { code: 500, message: String(error) } })
    }
  }
}
