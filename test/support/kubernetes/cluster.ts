import path from 'node:path'
import { Holds } from '../holds.ts'
import { Api } from './api.ts'
import { Bell } from './bell.ts'
import { catalogue, namespaceObject, type Served } from './catalogue.ts'
import { Controllers } from './controllers.ts'
import { GarbageCollector } from './garbage.ts'
import { Kubelet } from './kubelet.ts'
import { Lists } from './lists.ts'
import { LogStreams } from './log-streams.ts'
import type { Node } from './node.ts'
import { type ControllerStep, Office } from './office.ts'
import type { Hands } from './perform.ts'
import { PodMemory } from './pod-memory.ts'
import type { Resource } from './resources.ts'
import type { Runtime } from './runtime/runtime.ts'
import { SnapshotController } from './snapshot-controller.ts'
import { Store } from './store.ts'
import { Volumes } from './volumes.ts'
import { Watches } from './watches.ts'

export type ClusterOptions = {
  /** Of the server. Before v1.29 there are no native sidecars. */
  version: string
  namespace: string
  serve: Partial<Served>
  /** So many milliseconds are a second of grace, and of all else that a kubelet waits for. */
  graceScale: number
  /** Those that can be pulled. */
  images: Set<string>
  schedulable: boolean
  /** So long is the end of a container not told after the end of its output. */
  statusLagMs: number
  bookmarkEveryMs: number
  /** As of agent-sandbox v0.5.0 to v0.5.3: one that was resumed still says that it is suspended. */
  staleSuspended: boolean
  /** So long a pod stands still of which a snapshot was taken. If it ends before, its memory is in the snapshot. */
  snapshotHoldMs: number
}

const DEFAULTS: Omit<ClusterOptions, 'images'> = {
  version: 'v1.33.0',
  namespace: 'agents',
  serve: {},
  graceScale: 20,
  schedulable: true,
  statusLagMs: 0,
  bookmarkEveryMs: 60_000,
  staleSuspended: false,
  snapshotHoldMs: 5_000,
}

/** All parts of a cluster, and who knows whom. */
export class Cluster {
  readonly options: ClusterOptions
  readonly store = new Store()
  readonly resources: Resource[]
  readonly api: Api
  readonly lists: Lists
  readonly watches: Watches
  readonly logs = new LogStreams()
  readonly volumes: Volumes
  readonly kubelet: Kubelet
  readonly node: Node
  readonly hands: Hands
  readonly runtime: Runtime
  readonly steps = new Holds<ControllerStep>()
  readonly controllers: Controllers
  readonly snapshots: SnapshotController | undefined
  readonly #stopping = new AbortController()
  #aheadMs = 0

  constructor(runtime: Runtime, folder: string, options: Partial<ClusterOptions>) {
    this.options = { images: new Set(['sandman-test']), ...DEFAULTS, ...options }
    const { version, serve, images, graceScale, schedulable, statusLagMs, namespace, bookmarkEveryMs } = this.options
    const nowMs = () => this.nowMs
    const minor = Number(version.split('.')[1])
    const { store } = this
    this.runtime = runtime
    const served = { sandboxes: [], extensions: false, podSnapshots: false, ...serve }
    this.resources = catalogue(minor, served)
    this.api = new Api(store, nowMs)
    this.lists = new Lists(store)
    this.watches = new Watches(store, bookmarkEveryMs)
    this.volumes = new Volumes(folder, store)
    this.node = {
      store,
      runtime,
      volumes: this.volumes,
      images,
      nowMs,
      graceScale,
      statusLagMs,
      isSchedulable: schedulable,
      bell: new Bell(),
      stopping: this.#stopping.signal,
      restore: async (pod, askedOf) => this.snapshots?.restore(pod, askedOf),
      keep: async (uid) => {
        const isKept = !this.#stopping.signal.aborted && (await memory.keep(uid))
        if (isKept) this.volumes.keep(uid)
        return isKept
      },
    }
    const memory = new PodMemory(runtime, this.options.snapshotHoldMs)
    this.kubelet = new Kubelet(this.node)
    new GarbageCollector(store, this.resources, nowMs)
    const { api, lists, watches, logs, kubelet } = this
    this.hands = { api, lists, watches, logs, kubelet, nowMs, goneAs: 'event', wake: (uid) => memory.wake(uid) }
    const office = new Office({
      api,
      resource: (id) => this.resource(id),
      nowMs,
      reach: (step) => this.steps.reach(step),
    })
    if (served.podSnapshots)
      this.snapshots = new SnapshotController({
        office,
        kubelet,
        volumes: this.volumes,
        memory,
        folder: path.join(folder, 'snapshots'),
      })
    this.controllers = new Controllers(office, served, this.options, this.snapshots)
    for (const name of new Set(['default', namespace])) store.add('namespaces', namespaceObject(name, this.nowMs))
  }

  get nowMs(): number {
    return Date.now() + this.#aheadMs
  }

  /** Time jumps. What has run out by then ends. */
  advance(ms: number): void {
    this.#aheadMs += ms
    this.kubelet.expire()
    this.controllers.lookAgain()
  }

  resource(id: string): Resource {
    const found = this.resources.find((one) => one.id === id)
    if (!found) throw new Error(`${id} is not served`)
    return found
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.watches.stop()
    this.steps.openAll()
    await this.controllers.stop()
    await this.snapshots?.stop()
    await this.kubelet.stop()
    await this.runtime.stop()
  }
}
