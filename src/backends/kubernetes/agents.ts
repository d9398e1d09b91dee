import { type Agent, type AgentStatus, BackendError, type Call, type Piece, type Target } from '../backend.ts'
import { askInside, type Outside, workInside } from '../shell/entering.ts'
import type { Inside } from '../shell/shell.ts'
import { overtaken } from '../targets.ts'
import { attachOwn } from './attach.ts'
import type { Cluster } from './cluster.ts'
import { NotEntered, shellIn } from './exec.ts'
import type { Pod } from './pod.ts'
import { stateOf } from './pod-state.ts'
import { findPod } from './pods.ts'
import { overOf, ownStatus, shellStatus } from './status.ts'
import { requireRunning } from './targets.ts'

/**
 * The pod that a sandbox is, or has, and how its own agent runs there: as the main process of its container, or out of a shell. `root`
 * is the name under which its agents are kept, where that is not the pod's own: those of one that was restored began in another one.
 */
export type Housing = { pod: Pod; own: 'main process' | 'in a shell'; root?: string | undefined }

/** Undefined while it sleeps; fails when there is no such sandbox, or it has no pod. */
type FindHousing = (ref: string, call: Call) => Promise<Housing | undefined>

/** A node takes some seconds to say that a container has ended. */
const STOPPED_MS_MAX = 10_000
const LOOK_AGAIN_MS = 250

/** Agents in pods. Those that are started by key are made out of a shell; the sandbox's own is the main process of its container. */
export class Agents {
  readonly #cluster: Cluster
  readonly #find: FindHousing
  readonly #inside = workInside((target, call, work) => this.enter(target, call, work))
  readonly #asked = askInside((agent, call) => this.#lookAt(agent, call))
  readonly run = this.#inside.run
  readonly endLingering = this.#inside.endLingering
  readonly start = this.#inside.startAgent

  constructor(cluster: Cluster, find: FindHousing) {
    this.#cluster = cluster
    this.#find = find
  }

  async stop(agent: Agent, call: Call): Promise<void> {
    const housing = await this.#find(agent.ref, call)
    const isMain = housing && isMainProcess(housing, agent)
    if (isMain) {
      const { is } = ownStatus(housing.pod, agent)
      if (is === 'restarted') throw overtaken(agent.ref, 'its agent runs anew')
      if (is !== 'running') return
    }
    const failure = await this.#inside.stopAgent(agent, call).then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    call.signal.throwIfAborted()
    // What stops a main process ends with its container, before it can say so.
    const isDone = isMain ? await this.#hasEnded(agent, call) : !failure
    if (!isDone)
      throw failure?.error ?? new BackendError('sandbox_unreachable', `The agent of ${agent.ref} does not end`)
  }

  /**
   * While an agent's output is read in this process, the watch's word is enough that it runs: that is asked because it is silent,
   * and thousands of others may be silent, too. For anything else the API server is asked.
   */
  async status(agent: Agent, call: Call): Promise<AgentStatus> {
    const told = this.#cluster.followed.get(followedAs(agent))
    if (told && this.#isToldToRun(told.name, agent)) return { is: 'running' }
    return this.#asked.status(agent, call)
  }

  async *attach(agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
    const housing = agent.key === undefined ? await this.#find(agent.ref, call) : undefined
    if (!housing || !isMainProcess(housing, agent)) return yield* this.#asked.listen(agent, cursor, call)
    const { followed } = this.#cluster
    const name = followedAs(agent)
    const told = followed.get(name) ?? { name: housing.pod.name, readers: 0 }
    followed.set(name, told)
    told.readers++
    try {
      yield* attachOwn(this.#cluster, housing.pod, () => this.#find(agent.ref, call), agent, cursor, call)
    } finally {
      if (--told.readers === 0) followed.delete(name)
    }
  }

  /** In the incarnation that is meant. When nobody is let in, what is true of the pod is what is said. */
  async enter<T>(target: Target, call: Call, work: (inside: Inside) => Promise<T>): Promise<T> {
    const housing = await this.#require(target, call)
    try {
      return await work(this.#insideOf(housing))
    } catch (error) {
      call.signal.throwIfAborted()
      if (error instanceof NotEntered) await this.#require(target, call)
      throw error
    }
  }

  async #require(target: Target, call: Call): Promise<Housing> {
    const housing = await this.#find(target.ref, call)
    if (!housing) throw overtaken(target.ref, 'it sleeps')
    requireRunning(housing.pod, target)
    return housing
  }

  async #lookAt(agent: Agent, call: Call): Promise<Outside> {
    const housing = await this.#find(agent.ref, call)
    if (!housing) return { status: { is: 'asleep' } }
    const { pod } = housing
    const status = isMainProcess(housing, agent) ? ownStatus(pod, agent) : shellStatus(pod, agent)
    if (status) return { status }
    const inside = this.#insideOf(housing)
    return { inside, enter: (work) => work(inside) }
  }

  /** Agents are kept under the name of their pod: one that comes after it has none. */
  #insideOf({ pod, root = pod.uid }: Housing): Inside {
    return { shell: shellIn(this.#cluster, pod, (name, call) => findPod(this.#cluster, name, call)), root }
  }

  #isToldToRun(name: string, agent: Agent): boolean {
    const pod = this.#cluster.watch.get(name)
    return pod !== undefined && stateOf(pod).is === 'running' && overOf(pod, agent) === undefined
  }

  async #hasEnded(agent: Agent, call: Call): Promise<boolean> {
    for (const until = Date.now() + STOPPED_MS_MAX; Date.now() < until; ) {
      const housing = await this.#find(agent.ref, call)
      if (!housing || ownStatus(housing.pod, agent).is === 'terminated') return true
      await this.#cluster.watch.change(housing.pod.name, LOOK_AGAIN_MS, call)
    }
    return false
  }
}

function isMainProcess({ own }: Housing, { key }: Agent): boolean {
  return key === undefined && own === 'main process'
}

/** What it is called among those whose output is read. */
export function followedAs({ ref, incarnation }: Agent): string {
  return `${ref} ${incarnation}`
}
