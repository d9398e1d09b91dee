import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent } from '../backends/backend.ts'
import type { RollCallAnswer } from '../db/streams.ts'
import { recordBreaks, recordStop } from '../db/streams.ts'
import { describeError } from '../errors.ts'
import { type Outcome, superseded } from '../queues/outcome.ts'
import { type AgentSeen, decideAtStreamEnd, type Wish } from '../sandbox/stream-end.ts'
import { isBackendError } from './provider.ts'
import { NotKept, readStream, type StreamPosition, type StreamResult } from './stream.ts'
import { agentOf, ask, finish, type StreamWork } from './stream-work.ts'

/** What a provider says when it will never start such a command. */
const UNSTARTABLE = ['spec_invalid', 'quota_exceeded'] as const

/** Of one whose output is not read any more, the status is asked for after as long a pause as after so many breaks. */
const PAUSES_WHEN_TRUNCATED = 5

/**
 * Follows an execution that runs: reads its output from the bytes that are kept, and whenever that ends or is cut, asks for the
 * agent's own status and lets `sandbox/stream-end.ts` decide. `isFirst`: nobody has followed it before.
 */
export async function follow(work: StreamWork, { isFirst }: { isFirst: boolean }): Promise<Outcome> {
  const following = new Following(work, isFirst)
  try {
    return await following.toTheEnd()
  } finally {
    following.leave()
  }
}

class Following {
  readonly #work: StreamWork
  readonly #agent: Agent
  readonly #position: StreamPosition
  readonly #membership
  readonly #isFirst: boolean
  /** Breaks in a row that brought nothing. Goes on from what an earlier worker has counted. */
  #breaks: number
  #isStarted: boolean
  #failedStarts = 0
  #startFailure: string | undefined
  /** Once it is known how the agent ended, nobody is asked again. */
  #dead: Extract<AgentSeen, { is: 'terminated' }> | undefined
  #isDrained = false
  /** What was not read of it so far is gone with its sandbox. */
  #isUnreadable = false
  #emptyEnds = 0
  /** Since the agent was seen to have ended, when a byte of its output was read last. */
  #drainedAtMs = 0
  /** When the output last came to its end while the agent might run, or brought something: what is done since is finalizing. */
  #endedAtMs: number | undefined
  /** How long the present output, or if there is none the last one, was listened to without a break. */
  #listenedMs = () => 0
  /** Why the agent was asked to stop, by whomever. */
  #stoppedFor: Wish | null
  /** The wish that is being seen to: what interrupts a stream does so once. */
  #heeded: RollCallAnswer['wish'] = null
  #interruption = new AbortController()

  constructor(work: StreamWork, isFirst: boolean) {
    const { deps, execution } = work
    this.#work = work
    this.#isFirst = isFirst
    this.#agent = agentOf(work)
    this.#position = {
      cursor: execution.cursor ?? undefined,
      bytes: execution.output_bytes,
      truncated: execution.truncated,
    }
    this.#breaks = execution.breaks
    this.#stoppedFor = execution.stop_reason
    this.#isStarted = this.#agent.key === undefined || execution.output_bytes > 0
    this.#membership = deps.rollCall.enter(execution.id, execution.fence, (answer) => this.#hear(answer))
  }

  leave(): void {
    this.#membership.leave()
  }

  async toTheEnd(): Promise<Outcome> {
    const { deps, execution, provider, signal } = this.#work
    const { breaksMax, drainMs } = provider.patience
    deps.events.emit('execution.followed', { executionId: execution.id, from: this.#position.bytes })
    for (;;) {
      const unstartable = await this.#start()
      if (unstartable) return finish(this.#work, { status: 'failed', reason: 'error', message: unstartable })
      const progressed = this.#isStarted && (await this.#read())
      signal.throwIfAborted()
      if (progressed === 'not kept') return superseded('somebody else follows it, or it has ended')

      for (let asked = 0; ; asked++) {
        const agent = await this.#see()
        const { isMine, wish: wished, overdue, moving } = await this.#membership.look()
        if (!isMine) return superseded('somebody else follows it, or it has ended')
        const wish = this.#stoppedFor ?? this.#believed(wished)
        this.#heeded = wish
        const decision = decideAtStreamEnd({
          agent,
          progressed: progressed && asked === 0,
          breaks: this.#breaks,
          breaksMax,
          drained: this.#isDrained,
          undrainable:
            this.#isUnreadable || (this.#dead !== undefined && performance.now() - this.#drainedAtMs >= drainMs),
          wish: wish ?? undefined,
          wasStopped: this.#stoppedFor !== null,
          overdue,
          moving,
          followsOwn: this.#agent.key === undefined,
          notStarted: this.#isStarted ? undefined : this.#startFailure,
        })
        if (decision.action === 'finish') {
          if (decision.stop) await this.#stop()
          const outcome = await finish(this.#work, decision.end, this.#endedAtMs)
          // Its row says that it runs, and its provider that there is no such thing.
          const isLost = agent.is === 'absent' || (agent.is === 'terminated' && agent.lost !== undefined)
          if (isLost && outcome.kind === 'done') await ask(this.#work, 'kill', { only: 'lost' })
          return outcome
        }
        if (decision.action === 'stop') {
          if (!(await this.#mayStopFor(wish as Wish))) return superseded('somebody else follows it, or it has ended')
          await this.#stop()
        }
        if (decision.action === 'attach') {
          if (!progressed) await this.#pause(this.#breaks)
          break
        }
        await this.#pause(this.#isStarted ? asked + 1 : this.#failedStarts)
        // What nobody can see just now is not a break; what can be seen and brings nothing is.
        if (decision.action === 'wait' && agent.is !== 'unknown' && !moving) await this.#count(this.#breaks + 1)
        if (!this.#isStarted) break
      }
    }
  }

  #hear(answer: RollCallAnswer): void {
    const wish = this.#stoppedFor ?? this.#believed(answer.wish)
    if (!answer.isMine || (wish !== null && wish !== this.#heeded)) this.#interruption.abort()
  }

  /** Silence is what was listened to, and not what nobody has read so far. The deadline of it stays where it is. */
  #believed(wish: Wish | null): Wish | null {
    if (wish !== 'silence') return wish
    const silenceMs = this.#work.execution.silence_ms as number
    const [leastMs, mostMs] = this.#work.provider.patience.listenMs
    // An agent that has not said a word may have taken its time to start, which is not silence.
    const isNew = this.#agent.key !== undefined && this.#position.bytes === 0
    const enoughMs = isNew ? silenceMs : Math.min(silenceMs, mostMs)
    return this.#listenedMs() >= Math.max(enoughMs, leastMs) ? wish : null
  }

  /** Says why it never can be, when it cannot. Anything else is tried again. */
  async #start(): Promise<string | undefined> {
    const { backend, execution, provider } = this.#work
    const { key, ref, incarnation } = this.#agent
    if (this.#isStarted || key === undefined || execution.command === null) return undefined
    const asked = { key, command: execution.command }
    try {
      await provider.ask('start_agent', (call) => backend.startAgent({ ref, incarnation }, asked, call))
      this.#isStarted = true
    } catch (error) {
      this.#work.signal.throwIfAborted()
      this.#failedStarts++
      this.#startFailure = describeError(error)
      // Who refuses this try says nothing of an earlier one, whose answer nobody has heard: that may have started it, or be on its way.
      const isFirst = this.#isFirst && this.#failedStarts === 1
      if (isFirst && isBackendError(error, ...UNSTARTABLE) && (await this.#see()).is === 'none')
        return `It was not started: ${describeError(error)}`
    }
    return undefined
  }

  /** Reads until the output ends or is cut. True when that has brought the execution further. */
  async #read(): Promise<boolean | 'not kept'> {
    const { deps, execution, provider } = this.#work
    const { heldMs, quietMs, drainQuietMs, emptyEnds } = provider.patience
    if (this.#position.truncated) {
      // What is printed now is not kept, and not even read: only the end is waited for.
      await this.#pause(PAUSES_WHEN_TRUNCATED)
      this.#isDrained = true
      return true
    }
    this.#interruption = new AbortController()
    const wasDead = this.#dead !== undefined
    const beganAtMs = performance.now()
    this.#listenedMs = () => performance.now() - beganAtMs
    let result: StreamResult
    try {
      result = await readStream(this.#work, this.#agent, this.#position, {
        interruption: this.#interruption.signal,
        see: () => this.#see(),
        quietMs: wasDead ? drainQuietMs : quietMs,
      })
    } catch (error) {
      if (error instanceof NotKept && !(await this.#membership.look()).isMine) return 'not kept'
      throw error
    }
    this.#listenedMs = () => result.heldMs
    if (result.brought > 0) this.#drainedAtMs = performance.now()
    if (result.brought > 0 || !wasDead) this.#endedAtMs = performance.now()
    const endedByItself = result.error === undefined && !result.wasInterrupted
    this.#emptyEnds = wasDead && endedByItself && result.brought === 0 ? this.#emptyEnds + 1 : 0
    this.#isUnreadable = wasDead && isBackendError(result.error, 'sandbox_expired')
    this.#isDrained = result.isComplete || this.#emptyEnds >= emptyEnds
    const progressed = result.brought > 0 || (!wasDead && result.heldMs >= heldMs)
    const isBreak = wasDead ? !this.#isDrained && !this.#isUnreadable : !result.wasInterrupted
    if (progressed || isBreak) await this.#count(progressed ? 0 : this.#breaks + 1)
    deps.events.emit('execution.broke', {
      executionId: execution.id,
      at: this.#position.bytes,
      brought: result.brought,
      breaks: this.#breaks,
      ...(result.error !== undefined && { error: result.error }),
    })
    return progressed
  }

  async #see(): Promise<AgentSeen> {
    const { backend, provider, signal } = this.#work
    if (this.#dead) return this.#dead
    try {
      const seen = await provider.ask('agent_status', (call) => backend.agentStatus(this.#agent, call))
      if (seen.is === 'running' || seen.is === 'terminated') this.#isStarted = true // by whomever, and whatever was answered
      if (seen.is !== 'terminated') return seen
      // When nobody can say how it ended, its sandbox may have ended with it.
      const sighting =
        seen.exitCode === null && seen.signal === null
          ? await provider.ask('look', (call) => backend.look(this.#agent.ref, call))
          : undefined
      if (sighting?.is === 'absent') return { is: 'absent' }
      this.#drainedAtMs = performance.now()
      this.#dead = sighting?.is === 'lost' ? { ...seen, lost: sighting.why } : seen
      return this.#dead
    } catch (error) {
      signal.throwIfAborted()
      if (isBackendError(error, 'sandbox_expired')) return { is: 'absent' }
      this.#listenedMs = () => 0 // whatever is said until it is known again, nobody hears
      return { is: 'unknown', why: describeError(error) }
    }
  }

  /** Written down first, so that whoever sees it end knows that this was why; and who may not write that, may not stop it. */
  async #mayStopFor(wish: Wish): Promise<boolean> {
    const { deps, execution } = this.#work
    this.#stoppedFor ??= wish
    return recordStop(deps.db, { id: execution.id, fence: execution.fence, reason: wish, clock: deps.clock })
  }

  /** What comes of it is seen by its status, and what did not is tried again. */
  async #stop(): Promise<void> {
    const { backend, provider, deps, execution, signal } = this.#work
    await provider
      .ask('stop_agent', (call) => backend.stopAgent(this.#agent, call))
      .catch((error: unknown) => {
        signal.throwIfAborted()
        deps.events.emit('execution.left_over', { executionId: execution.id, error })
      })
  }

  async #count(breaks: number): Promise<void> {
    const { deps, execution } = this.#work
    const { id, fence } = execution
    if (breaks !== this.#breaks) await recordBreaks(deps.db, { id, fence, breaks })
    this.#breaks = breaks
  }

  /** Grows with what was in vain. Somebody's wish ends it. */
  async #pause(times: number): Promise<void> {
    const [firstMs, mostMs] = this.#work.provider.patience.breakMs
    const ms = Math.min(mostMs, firstMs * 2 ** Math.min(30, Math.max(0, times - 1)))
    const signal = AbortSignal.any([this.#work.signal, this.#interruption.signal])
    await sleep(ms, undefined, { signal }).catch(() => {})
    this.#work.signal.throwIfAborted()
    if (this.#interruption.signal.aborted) this.#interruption = new AbortController()
  }
}
