import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Body, type Exit } from './body.ts'
import { type ExecAsked, ExecFailed, type ExecProcess, startExec } from './exec.ts'
import { layOut, type Mount } from './inside.ts'
import { LineCutter } from './line-cutter.ts'
import { ContainerLog, type LogStream } from './log.ts'
import type { LogClock } from './log-clock.ts'
import type { Diet, MemoryWatch } from './memory-watch.ts'
import { refusalOf } from './processes.ts'

export type ContainerAsked = {
  /** Unique among all containers ever: `${podUid}/${name}/${restartCount}`. */
  id: string
  /** The whole of it, already made of command and arguments. */
  command: string[]
  env: Record<string, string>
  /** An absolute path inside. */
  workingDir: string | undefined
  /** What is behind each mount path: a folder of this machine that outlives the container. */
  mounts: Mount[]
  memoryBytesMax: number | undefined
}

export type ContainerEnd = {
  exitCode: number
  reason: 'Completed' | 'Error' | 'OOMKilled' | 'StartError'
  startedAt: Date
  finishedAt: Date
  message?: string
}

/** What all containers of a runtime share. */
type Surroundings = { clock: LogClock; watch: MemoryWatch }

const KILLED = 137
const NOT_STARTED = 128
/** When one began, as it is said, that never did. */
const NEVER = new Date(0)

/**
 * A container that is none: a folder of its own, and the processes that were started in it. When the main process ends, all others
 * are killed, as with the first one of a pid namespace.
 */
export class Container {
  readonly id: string
  readonly startedAt: Date
  readonly log = new ContainerLog()
  /** When the main process has ended and everything else was killed, or all of it has gone into a memory image. */
  readonly ended: Promise<ContainerEnd>
  readonly #asked: ContainerAsked
  readonly #surroundings: Surroundings
  readonly #ending = Promise.withResolvers<ContainerEnd>()
  readonly #cutters: Record<LogStream, LineCutter>
  #body: Body | undefined
  #diet: Diet | undefined
  #end: ContainerEnd | undefined
  #isFrozen = false
  #isEnding = false
  #wasShortOfMemory = false

  private constructor(asked: ContainerAsked, surroundings: Surroundings, body: Body | undefined) {
    this.id = asked.id
    this.startedAt = body ? new Date() : NEVER
    this.ended = this.#ending.promise
    this.#asked = asked
    this.#surroundings = surroundings
    this.#cutters = { stdout: this.#cutLines('stdout'), stderr: this.#cutLines('stderr') }
    if (body) this.#inhabit(body)
  }

  static async start(asked: ContainerAsked, at: { mark: string; folder: string }, surroundings: Surroundings) {
    const place = layOut(asked, at.folder)
    for (const folder of [at.folder, place.cwd, place.env.HOME]) mkdirSync(folder, { recursive: true })
    const refusal = refusalOf(asked.command, place)
    const body = refusal ?? (await Body.start({ ...at, ...asked, ...place }).catch(({ message }: Error) => message))
    if (typeof body !== 'string') return new Container(asked, surroundings, body)
    const container = new Container(asked, surroundings, undefined)
    await rm(at.folder, { recursive: true, force: true })
    container.#settle({ exitCode: NOT_STARTED, reason: 'StartError', message: body })
    return container
  }

  /** With the processes of another one, which still stand still, and a log that begins here. */
  static restore(asked: ContainerAsked, body: Body, surroundings: Surroundings): Container {
    return new Container(asked, surroundings, body)
  }

  get end(): ContainerEnd | undefined {
    return this.#end
  }

  /** It is being made a memory image of, or was: then it has ended, and its processes stand still elsewhere, or have gone on as others. */
  get isFrozen(): boolean {
    return this.#isFrozen
  }

  /** Its live processes, by asking the system. */
  get pids(): number[] {
    return this.#body?.pids ?? []
  }

  /** The main process is asked to end, and after this time everything is killed. Who is less patient may ask again. */
  async stop(graceMs: number): Promise<ContainerEnd> {
    if (graceMs <= 0) return this.kill()
    this.#body?.signal('SIGTERM')
    const timer = setTimeout(() => this.kill().catch(this.#ending.reject), graceMs)
    try {
      return await this.ended
    } finally {
      clearTimeout(timer)
    }
  }

  async kill(reason?: 'OOMKilled'): Promise<ContainerEnd> {
    if (reason !== undefined) this.#wasShortOfMemory = true
    await this.#body?.kill()
    return this.ended
  }

  /** Runs a command beside the main process, which ends with that, too. */
  async exec(asked: ExecAsked): Promise<ExecProcess> {
    const body = this.#body
    if (!body || this.#isEnding) throw new ExecFailed(`container not running (${this.id})`)
    if (this.#isFrozen) throw new ExecFailed(`container is being checkpointed (${this.id})`)
    const { mark, folder } = body
    const { memoryBytesMax } = this.#asked
    const started = await startExec(asked, { mark, memoryBytesMax, ...layOut(this.#asked, folder) })
    body.execs.add(started)
    void started.ended.then(() => body.execs.delete(started))
    return started
  }

  /** From here on it runs nothing more. */
  beginCheckpoint(): Body {
    const body = this.requireMemory()
    if (this.#isFrozen) throw new Error(`${this.id} is being checkpointed already`)
    this.#isFrozen = true
    return body
  }

  giveUpCheckpoint(): void {
    this.#isFrozen = false
  }

  requireMemory(): Body {
    if (!this.#body || this.#isEnding) throw new Error(`${this.id} has ended, and has no memory any more`)
    return this.#body
  }

  /** Its processes stand still, and are no longer its own: for all who look, it was killed. */
  surrender(): void {
    for (const exec of this.requireMemory().execs) exec.cut()
    this.#settle({ exitCode: KILLED, reason: 'Error' })
  }

  #inhabit(body: Body): void {
    const { memoryBytesMax } = this.#asked
    const { watch } = this.#surroundings
    this.#body = body
    body.hear = (from, bytes) => this.#cutters[from].take(bytes)
    const onKill = () => {
      this.#wasShortOfMemory = true
    }
    if (memoryBytesMax !== undefined) this.#diet = watch.begin({ mark: body.mark, memoryBytesMax, onKill })
    body.exited.then((exit) => this.#bury(body, exit)).catch(this.#ending.reject)
  }

  async #bury(body: Body, exit: Exit): Promise<void> {
    if (this.#body !== body) return
    this.#isEnding = true
    const end = this.#judge(exit)
    await body.killAll()
    await body.close()
    await body.remove()
    this.#settle({ ...end, finishedAt: exit.at })
  }

  #judge({ exitCode }: Exit): Pick<ContainerEnd, 'exitCode' | 'reason'> {
    if (this.#diet?.hasBroken(exitCode)) return { exitCode: KILLED, reason: 'OOMKilled' }
    if (this.#wasShortOfMemory) return { exitCode, reason: 'OOMKilled' }
    return { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error' }
  }

  #settle(end: Pick<ContainerEnd, 'exitCode' | 'reason' | 'message'> & { finishedAt?: Date }): void {
    if (this.#diet) this.#surroundings.watch.end(this.#diet)
    if (this.#body) this.#body.hear = () => {}
    this.#body = undefined
    for (const cutter of Object.values(this.#cutters)) cutter.flush()
    this.log.close()
    this.#end = { startedAt: this.startedAt, finishedAt: new Date(), ...end }
    this.#ending.resolve(this.#end)
  }

  #cutLines(stream: LogStream): LineCutter {
    return new LineCutter((bytes, isPartial) =>
      this.log.append({ atNs: this.#surroundings.clock.now(), stream, bytes, isPartial }),
    )
  }
}
