import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Gate } from '../gate.ts'
import { Holds } from '../holds.ts'
import { Cluster, type ClusterOptions } from './cluster.ts'
import { type Desk, exchange, upgrade } from './exchange.ts'
import { type Fault, Faults, type Matching } from './faults.ts'
import type { LogCut } from './log-streams.ts'
import type { ControllerStep } from './office.ts'
import { PodControl } from './pod-control.ts'
import type { Rule } from './rbac.ts'
import { json, send } from './reply.ts'
import { Requests } from './requests.ts'
import { Runtime } from './runtime/runtime.ts'
import type { SnapshotController } from './snapshot-controller.ts'
import type { WatchDrop } from './watches.ts'
import { EXEC_PROTOCOLS } from './websocket.ts'

export type FakeKubernetesOptions = Partial<ClusterOptions> & { token?: string }

/**
 * A Kubernetes cluster on this machine, over HTTP: its API server, its controllers, and one node, whose containers are real processes.
 * It does what is known of the real ones, their races included, and goes wrong on command.
 */
export class FakeKubernetes extends PodControl {
  readonly token: string
  readonly namespace: string
  readonly requests = new Requests()
  readonly #server: Server
  readonly #root: string
  readonly #faults = new Faults()
  readonly #arrivals = new Holds<string>()
  readonly #answers = new Holds<string>()
  readonly #stopping = new AbortController()
  readonly #sockets = new Set<Socket>()
  readonly #underWay = new Set<Promise<void>>()
  readonly #desk: Desk

  private constructor(server: Server, root: string, cluster: Cluster, token: string) {
    super(cluster)
    this.token = token
    this.namespace = cluster.options.namespace
    this.#server = server
    this.#root = root
    this.#desk = {
      token,
      version: cluster.options.version,
      resources: cluster.resources,
      hands: cluster.hands,
      rules: undefined,
      faults: this.#faults,
      arrivals: this.#arrivals,
      answers: this.#answers,
      requests: this.requests,
      latencyMs: 0,
      execProtocols: EXEC_PROTOCOLS,
      execSockets: new Set(),
      stopping: this.#stopping.signal,
    }
    server.on('request', (request, response) => this.#track(this.#serve(request, response)))
    server.on('upgrade', (request, socket, head) => this.#track(upgrade(this.#desk, request, socket, head)))
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  static async start({ token = 'token-of-a-test', ...options }: FakeKubernetesOptions = {}): Promise<FakeKubernetes> {
    const root = await mkdtemp(path.join(os.tmpdir(), 'fake-kubernetes-'))
    const cluster = new Cluster(await Runtime.create(path.join(root, 'runtime')), path.join(root, 'volumes'), options)
    // One that is kept for the next call is not closed under it.
    const server = createServer({ keepAliveTimeout: 600_000 })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new FakeKubernetes(server, root, cluster, token)
  }

  /** Nothing of it is left: no process, no socket, no folder, nobody who waits. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const holds of [this.#arrivals, this.#answers]) holds.openAll()
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
    await Promise.allSettled(this.#underWay)
    await this.cluster.stop()
    await rm(this.#root, { recursive: true, force: true, maxRetries: 3 })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** What a KubeConfig has to be made of. */
  connect(): { server: string; token: string } {
    return { server: this.url, token: this.token }
  }

  get openConnections(): number {
    return this.#sockets.size
  }

  // What goes wrong.

  /** The next requests of this kind meet this. */
  failNext(matching: Matching, fault: Fault, times = 1): void {
    this.#faults.next(matching, fault, times)
  }

  /** All that was scripted is forgotten. */
  heal(): void {
    this.#faults.heal()
    this.cluster.logs.heal()
    this.#desk.latencyMs = 0
  }

  set latencyMs(ms: number) {
    this.#desk.latencyMs = ms
  }

  /** Nothing else is allowed to who comes with the token; undefined allows everything. */
  allow(rules: readonly Rule[] | undefined): void {
    this.#desk.rules = rules
  }

  /** Nothing more of this kind can be made, by whomever; undefined allows it again. */
  exceedQuota(resource: string, why: string | undefined): void {
    if (why === undefined) this.cluster.api.exceededQuotas.delete(resource)
    else this.cluster.api.exceededQuotas.set(resource, why)
  }

  /** Of all logs that are being read, now; or of the next ones, after exactly so many bytes. */
  cutLogs(how: LogCut, next?: { afterBytes: number; times?: number }): void {
    if (next) this.cluster.logs.cutNext(how, next.afterBytes, next.times ?? 1)
    else this.cluster.logs.cut(how)
  }

  /** Of all commands that are being run. Closed is a socket that says nothing of an end, and ends. */
  cutExecs(how: 'reset' | 'close'): void {
    for (const socket of this.#desk.execSockets) {
      if (how === 'reset') socket.terminate()
      else socket.close(1000)
    }
  }

  /** As a server that does not know the newer ones. */
  set execProtocols(protocols: readonly string[]) {
    this.#desk.execProtocols = protocols
  }

  /** What goes wrong with the snapshots of pods, and what is known of their memory. */
  get snapshots(): SnapshotController {
    if (!this.cluster.snapshots) throw new Error('pod snapshots are not served')
    return this.cluster.snapshots
  }

  dropWatches(how: WatchDrop): void {
    this.cluster.watches.drop(how)
  }

  /** What was before this version is forgotten, and whoever wants to go on from there is told so. */
  compact(version?: number): void {
    this.cluster.store.compact(version)
    this.cluster.lists.expireContinues()
  }

  /** How somebody is told who watches from a forgotten version. */
  set goneAs(how: 'event' | 'http') {
    this.#desk.hands.goneAs = how
  }

  // When it happens.

  /** Requests wait before anything is done. A place is `create pods`, or `get pods/log`. */
  holdAt(place: string): Gate {
    return this.#arrivals.hold(place)
  }

  holdOnceAt(place: string): Gate {
    return this.#arrivals.holdOnce(place)
  }

  /** They are done, and not answered. */
  holdAnswersOf(place: string): Gate {
    return this.#answers.hold(place)
  }

  /** The controllers see nothing of what happens until they are resumed. */
  pauseController(): void {
    this.cluster.controllers.pause()
  }

  resumeController(): void {
    this.cluster.controllers.resume()
  }

  /** They come as far as to this. */
  holdController(step: ControllerStep): Gate {
    return this.cluster.steps.hold(step)
  }

  #track(work: Promise<void>): void {
    const tracked = work.catch(() => {}).finally(() => this.#underWay.delete(tracked))
    this.#underWay.add(tracked)
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await exchange(this.#desk, request, response)
    } catch (error) {
      if (response.headersSent || response.destroyed) response.destroy()
      else
        send(
          response,
          json(500, JSON.stringify({ kind: 'Status', status: 'Failure', message: String(error), code: 500 })),
        )
    }
  }
}
