import { type Agent, type AgentStatus, BackendError, type Call, type Piece, type Target } from '../backend.ts'
import { attach } from '../shell/attach.ts'
import { runCommand } from '../shell/commands.ts'
import { partOf } from '../shell/parts.ts'
import type { Inside } from '../shell/shell.ts'
import { startAgent } from '../shell/start.ts'
import { agentStatus } from '../shell/status.ts'
import { endLingering, stopAgent } from '../shell/stop.ts'
import { attachOwn } from './attach.ts'
import type { Cluster } from './cluster.ts'
import { NotEntered, shellIn } from './exec.ts'
import type { Pod } from './pod.ts'
import { stateOf } from './pod-state.ts'
import { findPod } from './pods.ts'
import { overOf, ownStatus, shellStatus } from './status.ts'
import { overtaken, requireRunning } from './targets.ts'

/**
 * The pod that a sandbox is, or has, and how its own agent runs there: as the main process of its container, or out of a shell. `root`
 * is the name under which its agents are kept, where that is not the pod's own: those of one that was restored began in another one.
 */
export type Housing = { pod: Pod; own: 'main process' | 'in a shell'; root?: string | undefined }

/** Undefined while it sleeps; fails when there is no such sandbox, or it has no pod. */
export type FindHousing = (ref: string, call: Call) => Promise<Housing | undefined>

/** A node takes some seconds to say that a container has ended. */
const STOPPED_MS_MAX = 10_000
const LOOK_AGAIN_MS = 250

/** Agents in pods. Those that are started by key are made out of a shell; the sandbox's own is the main process of its container. */
export class Agents {
  readonly #cluster: Cluster
  readonly #find: FindHousing

  constructor(cluster: Cluster, find: FindHousing) {
    this.#cluster = cluster
    this.#find = find
  }

  run(target: Target, command: string, call: Call) {
    return this.enter(target, call, (inside) => runCommand(inside, command, call))
  }

  endLingering(target: Target, call: Call): Promise<void> {
    return this.enter(target, call, (inside) => endLingering(inside, call))
  }

  start(target: Target, { key, command }: { key: string; command: readonly string[] }, call: Call): Promise<void> {
    const part = partOf(key)
    return this.enter(target, call, (inside) => startAgent(inside, { part, command }, call))
  }

  async stop(agent: Agent, call: Call): Promise<void> {
    const part = partOf(agent.key)
    const housing = await this.#find(agent.ref, call)
    const isMain = housing && isMainProcess(housing, agent)
    if (isMain) {
      const { is } = ownStatus(housing.pod, agent)
      if (is === 'restarted') throw overtaken(agent.ref, 'its agent runs anew')
      if (is !== 'running') return
    }
    const failure = await this.enter(agent, call, (inside) => stopAgent(inside, part, call)).then(
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
   * While its output is read in this process, what the watch has told is enough to know that it runs: whoever asks then does so because
   * it is silent, and so are thousands of others. Whatever else there is to say is asked of the API server.
   */
  async status(agent: Agent, call: Call): Promise<AgentStatus> {
    const part = partOf(agent.key)
    const told = this.#cluster.followed.get(followedAs(agent))
    if (told && this.#isToldToRun(told.name, agent)) return { is: 'running' }
    const housing = await this.#find(agent.ref, call)
    if (!housing) return { is: 'asleep' }
    if (isMainProcess(housing, agent)) return ownStatus(housing.pod, agent)
    const outer = shellStatus(housing.pod, agent)
    if (outer) return outer
    try {
      return await agentStatus(this.#insideOf(housing), part, call)
    } catch (error) {
      call.signal.throwIfAborted()
      const now = await this.#find(agent.ref, call)
      const status: AgentStatus | undefined = now ? shellStatus(now.pod, agent) : { is: 'asleep' }
      if (status) return status
      throw error
    }
  }

  async *attach(agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
    const housing = await this.#find(agent.ref, call)
    if (!housing) return // what it has said is inside, and that sleeps
    if (!isMainProcess(housing, agent)) return yield* this.#attachInShell(housing, agent, cursor, call)
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

  async *#attachInShell(housing: Housing, agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
    const part = partOf(agent.key)
    if (shellStatus(housing.pod, agent)) return
    try {
      yield* attach(this.#insideOf(housing), part, cursor, call)
    } catch (error) {
      call.signal.throwIfAborted()
      const now = await this.#find(agent.ref, call)
      if (!now || shellStatus(now.pod, agent)) return
      throw error
    }
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
