import { rm } from 'node:fs/promises'
import path from 'node:path'
import { checkRoom, checkTtl, keepAlive, type Limits, type Setting } from './limits.ts'
import { type Live, newSandboxId, type Paused, type Settings } from './records.ts'
import { ApiError, noSandbox } from './replies.ts'
import { Templates } from './templates.ts'
import { change, isChanging, whenFree } from './transitions.ts'
import { Vm } from './vm.ts'

/** Where a change can be held up by a test. Those that begin have nothing to show yet. */
export type Phase = 'starting' | 'resuming' | 'pausing' | 'killing' | 'snapshotting'

/** What becomes of a pause that goes wrong. */
export type Fate =
  /** It fails, and the sandbox is lost with it. */
  | 'lost'
  /** It succeeds, but what it has left will be gone. */
  | 'doomed'

const DEFAULT_TTL_S = 300
const CONNECT_ROUNDS_MAX = 3

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
    checkTtl(ttlS, this.#limits)
    if (ttlS <= 0) throw new ApiError(400, 'Timeout must be greater than 0')
    const { templateId, alias, files } = this.templates.resolve(template)
    checkRoom(this.live.size, this.#limits)
    return this.#start(newSandboxId(), { ...settings, templateId, alias }, ttlS, 'starting', files)
  }

  /** Gives what it became, and whether it had to be resumed for that. */
  async connect(id: string, ttlS = DEFAULT_TTL_S, memory = true): Promise<{ live: Live; isResumed: boolean }> {
    checkTtl(ttlS, this.#limits)
    for (let round = 0; round < CONNECT_ROUNDS_MAX; round++) {
      const live = this.live.get(id)
      if (!live) break
      if (live.state === 'running') {
        keepAlive(live, ttlS, 'at least to', this.#nowMs(), this.#limits)
        return { live, isResumed: false }
      }
      if (live.state === 'killing') throw isChanging(live)
      await live.transition?.catch(() => {
        throw new ApiError(500, 'Error waiting for sandbox state change')
      })
    }
    return { live: await this.#resume(id, ttlS, memory), isResumed: true }
  }

  setTimeout(id: string, ttlS: number, how: Setting = 'to'): void {
    const live = this.live.get(id)
    if (!live) throw noSandbox(id)
    if (live.state !== 'running') throw isChanging(live)
    keepAlive(live, Math.max(0, ttlS), how, this.#nowMs(), this.#limits)
  }

  /** Those who ask while it is being paused wait with the first one, and are told the same. */
  async pause(id: string, { memory = true, fate }: { memory?: boolean; fate?: Fate | undefined } = {}): Promise<void> {
    const paused = whenFree(this.live, id, 'pausing', this.#nowMs, (live) => this.#suspend(live, memory, fate))
    if ((await paused.catch(failsWith(() => 'Error pausing sandbox'))) === 'done') return
    if (!this.paused.has(id)) throw noSandbox(id)
    throw new ApiError(409, `Error pausing sandbox - sandbox '${id}' is already paused`)
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
    await change(live, 'snapshotting', this.#nowMs(), async () => {
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
    const ended = whenFree(this.live, id, 'killing', this.#nowMs, async (live) => {
      await live.vm.destroy()
      await this.#reach('killing')
      this.live.delete(id)
    })
    return (await ended.catch(failsWith((why) => `Error killing sandbox: ${why}`))) === 'done'
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
    checkRoom(this.live.size, this.#limits)
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
    keepAlive(live, ttlS, 'to', startedAtMs, this.#limits)
    this.live.set(id, live)
    return live
  }
}

/** Anything but what was scripted is a mistake in here, and is told as it is. */
function failsWith(message: (why: string) => string): (error: unknown) => never {
  return (error) => {
    throw error instanceof ApiError ? new ApiError(500, message(error.message)) : error
  }
}
