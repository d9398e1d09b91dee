import { rm } from 'node:fs/promises'
import path from 'node:path'
import { type Live, newSandboxId, type Paused, type Settings } from './records.ts'
import { ApiError, noSandbox } from './replies.ts'
import { Templates } from './templates.ts'
import { Vm } from './vm.ts'

/** Where a change can be held up by a test. Those that begin have nothing to show yet. */
export type Phase = 'starting' | 'resuming' | 'pausing' | 'killing' | 'snapshotting'

export type Limits = {
  /** Longer than this nothing lives without a pause. */
  lifetimeMsMax: number
  /** So many may run at once. */
  sandboxesMax: number
  /** For so long envd tells how a process ended that has ended. */
  exitRetentionMs: number
}

/** What becomes of a pause that goes wrong. */
export type Fate =
  /** It fails, and the sandbox is lost with it. */
  | 'lost'
  /** It succeeds, but what it has left will be gone. */
  | 'doomed'

const DEFAULT_TTL_S = 300
const CONNECT_ROUNDS_MAX = 3
const HOUR_MS = 3_600_000

/** All sandboxes there are, and what may be done to them while something else is done to them. */
export class Cloud {
  readonly live = new Map<string, Live>()
  readonly paused = new Map<string, Paused>()
  readonly templates: Templates
  /** A pause that failed has left something behind that cannot be seen, but deleted. */
  readonly #remains = new Set<string>()
  readonly #resumes = new Map<string, Promise<Live>>()
  readonly #root: string
  readonly #limits: Limits
  readonly #reach: (phase: Phase) => Promise<void>
  readonly #nowMs: () => number
  #lastStartMs = 0
  #pauses = 0

  constructor(root: string, limits: Limits, nowMs: () => number, reach: (phase: Phase) => Promise<void>) {
    this.#root = root
    this.#limits = limits
    this.#nowMs = nowMs
    this.#reach = reach
    this.templates = new Templates(path.join(root, 'snapshots'))
  }

  /** As it is seen by its id. One that is being killed is already gone. */
  find(id: string): Live | Paused {
    const live = this.live.get(id)
    const found = live ?? this.paused.get(id)
    if (!found || live?.state === 'killing') throw noSandbox(id)
    return found
  }

  async create(
    template: string,
    settings: Omit<Settings, 'templateId' | 'alias'>,
    ttlS = DEFAULT_TTL_S,
  ): Promise<Live> {
    this.#checkTtl(ttlS)
    if (ttlS <= 0) throw new ApiError(400, 'Timeout must be greater than 0')
    const { templateId, alias, files } = this.templates.resolve(template)
    this.#checkRoom()
    return this.#start(newSandboxId(), { ...settings, templateId, alias }, ttlS, 'starting', files)
  }

  /** Gives what it became, and whether it had to be resumed for that. */
  async connect(id: string, ttlS = DEFAULT_TTL_S, memory = true): Promise<{ live: Live; isResumed: boolean }> {
    this.#checkTtl(ttlS)
    for (let round = 0; round < CONNECT_ROUNDS_MAX; round++) {
      const live = this.live.get(id)
      if (!live) break
      if (live.state === 'running') {
        this.#keepAlive(live, ttlS, 'longer')
        return { live, isResumed: false }
      }
      if (live.state === 'killing') throw isChanging(live)
      await live.transition?.catch(() => {
        throw new ApiError(500, 'Error waiting for sandbox state change')
      })
    }
    return { live: await this.#resume(id, ttlS, memory), isResumed: true }
  }

  setTimeout(id: string, ttlS: number, may: 'be shorter' | 'longer' = 'be shorter'): void {
    const live = this.live.get(id)
    if (!live) throw noSandbox(id)
    if (live.state !== 'running') throw isChanging(live)
    this.#keepAlive(live, Math.max(0, ttlS), may)
  }

  /** Those who ask while it is being paused wait with the first one, and are told the same. */
  async pause(id: string, { memory = true, fate }: { memory?: boolean; fate?: Fate | undefined } = {}): Promise<void> {
    const live = await this.#whenFree(id, 'pausing').catch(() => {
      throw new ApiError(500, 'Error pausing sandbox')
    })
    if (live === 'joined') return
    if (!live) {
      if (!this.paused.has(id)) throw noSandbox(id)
      throw new ApiError(409, `Error pausing sandbox - sandbox '${id}' is already paused`)
    }
    await this.#change(live, 'pausing', () => this.#suspend(live, memory, fate))
  }

  /** Also what earlier pauses have left. */
  async kill(id: string): Promise<void> {
    const wasLive = await this.#end(id)
    const wasPaused = await this.forgetPause(id)
    const remained = this.#remains.delete(id)
    if (!wasLive && !wasPaused && !remained) throw noSandbox(id)
  }

  async snapshot(id: string, name: string | undefined): Promise<{ snapshotID: string; names: string[] }> {
    const live = this.live.get(id)
    if (!live) throw noSandbox(id)
    if (live.state !== 'running')
      throw new ApiError(409, `Sandbox '${id}' cannot be snapshotted while in '${live.state}' state`)
    const made = this.templates.prepare(id, name, this.#nowMs())
    await this.#change(live, 'snapshotting', async () => {
      await live.vm.freeze()
      await this.#reach('snapshotting')
      await live.vm.copyTo(made.files)
      live.vm.thaw()
      this.templates.add(made)
    })
    return { snapshotID: made.id, names: made.names }
  }

  /** Ends or pauses whatever has lived long enough, and returns when that is done. What an older pause has left stays. */
  async evict(): Promise<void> {
    const expired = [...this.live.values()].filter(({ endAtMs }) => endAtMs <= this.#nowMs())
    const evicted = expired.map((live) => {
      if (live.transition) return live.transition
      const { autoPause, autoPauseMemory } = live.settings
      return autoPause ? this.pause(live.id, { memory: autoPauseMemory }) : this.#end(live.id)
    })
    await Promise.allSettled(evicted)
  }

  /** What was said to be kept is not there any more. */
  async loseDoomed(): Promise<void> {
    for (const { id, isDoomed } of [...this.paused.values()]) if (isDoomed) await this.forgetPause(id)
  }

  async forgetPause(id: string): Promise<boolean> {
    const paused = this.paused.get(id)
    if (!paused) return false
    this.paused.delete(id)
    await paused.vm?.destroy()
    await rm(paused.files, { recursive: true, force: true })
    return true
  }

  /** Nothing of it is told to anybody: its machine has died, or never existed. */
  async lose(id: string): Promise<void> {
    const live = this.live.get(id)
    this.live.delete(id)
    await live?.vm.destroy()
  }

  async #end(id: string): Promise<boolean> {
    const live = await this.#whenFree(id, 'killing').catch((error: Error) => {
      throw new ApiError(500, `Error killing sandbox: ${error.message}`)
    })
    if (!live) return false
    if (live !== 'joined')
      await this.#change(live, 'killing', async () => {
        await live.vm.destroy()
        await this.#reach('killing')
        this.live.delete(id)
      })
    return true
  }

  async #suspend(live: Live, memory: boolean, fate: Fate | undefined): Promise<void> {
    const { id, settings, startedAtMs, vm } = live
    const pausedAtMs = this.#nowMs()
    await vm.pause()
    await this.#reach('pausing')
    if (fate === 'lost') {
      await vm.destroy()
      this.live.delete(id)
      this.#remains.add(id)
      throw new ApiError(500, 'Error pausing sandbox')
    }
    const files = path.join(this.#root, 'pauses', `${id}-${++this.#pauses}`)
    await vm.copyTo(files)
    if (!memory) await vm.destroy()
    const before = this.paused.get(id)
    const isDoomed = fate === 'doomed'
    this.paused.set(id, { id, settings, startedAtMs, pausedAtMs, files, vm: memory ? vm : undefined, isDoomed })
    this.live.delete(id)
    if (before) await rm(before.files, { recursive: true, force: true })
  }

  /** Those who ask at once share one start. A kill meanwhile deletes what was left, and cannot hold up the start. */
  #resume(id: string, ttlS: number, memory: boolean): Promise<Live> {
    const running = this.#resumes.get(id)
    if (running) return running
    const paused = this.paused.get(id)
    if (!paused) throw noSandbox(id)
    this.#checkRoom()
    const resumed = this.#wake(paused, ttlS, memory).finally(() => this.#resumes.delete(id))
    this.#resumes.set(id, resumed)
    return resumed
  }

  async #wake(paused: Paused, ttlS: number, memory: boolean): Promise<Live> {
    const { id, settings, files, vm } = paused
    paused.vm = undefined
    if (vm && memory) return this.#start(id, settings, ttlS, 'resuming', vm)
    await vm?.destroy()
    return this.#start(id, settings, ttlS, 'resuming', files)
  }

  async #start(
    id: string,
    settings: Settings,
    ttlS: number,
    phase: Phase,
    from: Vm | string | undefined,
  ): Promise<Live> {
    const { templateId, envs } = settings
    const { exitRetentionMs } = this.#limits
    const boot = { id, templateId, envs, exitRetentionMs, folder: path.join(this.#root, 'sandboxes', id) }
    const vm = from instanceof Vm ? from : await Vm.start(boot, from)
    await this.#reach(phase)
    if (from instanceof Vm) vm.thaw()
    // No two starts at the same instant: a start is all that tells one run from the next.
    this.#lastStartMs = Math.max(this.#lastStartMs + 1, this.#nowMs())
    const startedAtMs = this.#lastStartMs
    const live: Live = { id, settings, vm, state: 'running', startedAtMs, endAtMs: startedAtMs, transition: undefined }
    this.#keepAlive(live, ttlS, 'be shorter')
    this.live.set(id, live)
    return live
  }

  /** Undefined when there is none; `joined` when somebody else has done it meanwhile. Fails when that has failed. */
  async #whenFree(id: string, wanted: 'pausing' | 'killing'): Promise<Live | 'joined' | undefined> {
    for (let live = this.live.get(id); live; live = this.live.get(id)) {
      if (!live.transition) return live
      // What is being killed can only be killed; to everybody else it is gone.
      if (live.state === 'killing' && wanted !== 'killing') return undefined
      const { state } = live
      // Of a copy that fails nobody is told who only waits for it.
      await (state === 'snapshotting' ? live.transition.catch(() => {}) : live.transition)
      if (state === wanted) return 'joined'
    }
    return undefined
  }

  async #change(live: Live, state: Exclude<Live['state'], 'running'>, work: () => Promise<void>): Promise<void> {
    live.state = state
    if (state !== 'snapshotting') live.endAtMs = Math.min(live.endAtMs, this.#nowMs())
    live.transition = work().finally(() => {
      live.state = 'running'
      live.transition = undefined
    })
    await live.transition
  }

  #keepAlive(live: Live, ttlS: number, may: 'be shorter' | 'longer'): void {
    const nowMs = this.#nowMs()
    const latestMs = live.startedAtMs + this.#limits.lifetimeMsMax
    if (nowMs > latestMs) throw new ApiError(400, 'Max instance length exceeded')
    const endAtMs = Math.min(nowMs + ttlS * 1_000, latestMs)
    if (may === 'be shorter' || endAtMs > live.endAtMs) live.endAtMs = endAtMs
  }

  #checkTtl(ttlS: number): void {
    if (ttlS * 1_000 <= this.#limits.lifetimeMsMax) return
    throw new ApiError(400, `Timeout cannot be greater than ${this.#limits.lifetimeMsMax / HOUR_MS} hours`)
  }

  #checkRoom(): void {
    const { sandboxesMax } = this.#limits
    if (this.live.size < sandboxesMax) return
    throw new ApiError(429, `you have reached the maximum number of concurrent E2B sandboxes (${sandboxesMax})`)
  }
}

function isChanging({ id, state }: Live): ApiError {
  const what = { running: 'running', pausing: 'paused', killing: 'killed', snapshotting: 'snapshotted' }[state]
  return new ApiError(409, `Sandbox "${id}" is being ${what}`)
}
