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
import { keyedStatus, ownStatus } from './status.ts'
import { overtaken, requireRunning } from './targets.ts'

/** How a pod is found that a sandbox is, or has: fails when there is none. */
export type FindPod = (ref: string, call: Call) => Promise<Pod>

/** Agents in pods. Those that are started by key are made out of a shell; the sandbox's own is the main process of its container. */
export class Agents {
  readonly #cluster: Cluster
  readonly #find: FindPod

  constructor(cluster: Cluster, find: FindPod) {
    this.#cluster = cluster
    this.#find = find
  }

  run(target: Target, command: string, call: Call) {
    return this.#enter(target, call, (inside) => runCommand(inside, command, call))
  }

  endLingering(target: Target, call: Call): Promise<void> {
    return this.#enter(target, call, (inside) => endLingering(inside, call))
  }

  start(target: Target, { key, command }: { key: string; command: readonly string[] }, call: Call): Promise<void> {
    const part = partOf(key)
    return this.#enter(target, call, (inside) => startAgent(inside, { part, command }, call))
  }

  async stop(agent: Agent, call: Call): Promise<void> {
    const part = partOf(agent.key)
    if (agent.key === undefined) {
      const { is } = ownStatus(await this.#find(agent.ref, call), agent)
      if (is === 'restarted' || is === 'asleep') throw overtaken(agent.ref, `its agent is ${is}`)
      if (is !== 'running') return
    }
    const failure = await this.#enter(agent, call, (inside) => stopAgent(inside, part, call)).then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    call.signal.throwIfAborted()
    // What stops the sandbox's own agent ends with its container, before it can say so.
    const isDone = agent.key === undefined ? await this.#hasEnded(agent, call) : !failure
    if (!isDone)
      throw failure?.error ?? new BackendError('sandbox_unreachable', `The agent of ${agent.ref} does not end`)
  }

  /**
   * While its output is read in this process, what the watch has told is enough to know that it runs: whoever asks then does so because
   * it is silent, and so are thousands of others. Whatever else there is to say is asked of the API server.
   */
  async status(agent: Agent, call: Call): Promise<AgentStatus> {
    const part = partOf(agent.key)
    const told = this.#cluster.followed.has(followedAs(agent)) ? this.#toldRunning(agent) : undefined
    if (told && agent.key === undefined) return { is: 'running' }
    const pod = told ?? (await this.#find(agent.ref, call))
    if (agent.key === undefined) return ownStatus(pod, agent)
    const outer = keyedStatus(pod, agent)
    if (outer) return outer
    try {
      return await agentStatus(this.#insideOf(pod), part, call)
    } catch (error) {
      call.signal.throwIfAborted()
      const now = keyedStatus(await this.#find(agent.ref, call), agent)
      if (now) return now
      throw error
    }
  }

  async *attach(agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
    const { followed } = this.#cluster
    const name = followedAs(agent)
    followed.set(name, (followed.get(name) ?? 0) + 1)
    try {
      if (agent.key === undefined)
        yield* attachOwn(this.#cluster, (asked) => this.#find(agent.ref, asked), agent, cursor, call)
      else yield* this.#attachByKey(agent, cursor, call)
    } finally {
      const left = (followed.get(name) ?? 1) - 1
      if (left > 0) followed.set(name, left)
      else followed.delete(name)
    }
  }

  async *#attachByKey(agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
    const part = partOf(agent.key)
    const pod = await this.#find(agent.ref, call)
    if (keyedStatus(pod, agent)) return
    try {
      yield* attach(this.#insideOf(pod), part, cursor, call)
    } catch (error) {
      call.signal.throwIfAborted()
      if (keyedStatus(await this.#find(agent.ref, call), agent)) return
      throw error
    }
  }

  /** In the incarnation that is meant. When nobody is let in, what is true of the pod is what is said. */
  async #enter<T>(target: Target, call: Call, work: (inside: Inside) => Promise<T>): Promise<T> {
    const pod = await this.#find(target.ref, call)
    requireRunning(pod, target)
    try {
      return await work(this.#insideOf(pod))
    } catch (error) {
      call.signal.throwIfAborted()
      if (error instanceof NotEntered) requireRunning(await this.#find(target.ref, call), target)
      throw error
    }
  }

  /** Agents are kept under the name of their pod: one that comes after it has none. */
  #insideOf(pod: Pod): Inside {
    return { shell: shellIn(this.#cluster, pod), root: pod.uid }
  }

  #toldRunning(agent: Agent): Pod | undefined {
    const [name = ''] = agent.ref.split('/').reverse()
    const pod = this.#cluster.watch.get(name)
    return pod && stateOf(pod).is === 'running' && ownStatus(pod, { ...agent, key: undefined }).is !== 'restarted'
      ? pod
      : undefined
  }

  async #hasEnded(agent: Agent, call: Call): Promise<boolean> {
    for (const until = Date.now() + STOPPED_MS_MAX; Date.now() < until; ) {
      const pod = await this.#find(agent.ref, call)
      if (ownStatus(pod, agent).is === 'terminated') return true
      await this.#cluster.watch.change(pod.name, LOOK_AGAIN_MS, call)
    }
    return false
  }
}

/** A node takes some seconds to say that a container has ended. */
const STOPPED_MS_MAX = 10_000
const LOOK_AGAIN_MS = 250

function followedAs({ ref, incarnation, key = '' }: Agent): string {
  return `${ref} ${incarnation} ${key}`
}
