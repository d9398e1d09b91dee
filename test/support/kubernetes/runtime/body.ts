import type { ChildProcess } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { signal } from '../../machine.ts'
import type { ExecProcess } from './exec.ts'
import type { Inside } from './inside.ts'
import type { LogStream } from './log.ts'
import { beModest, exitCodeOf, findProcesses, killAll, killOnce, launch, MARK, throughShell } from './processes.ts'

export type Exit = { exitCode: number; at: Date }
type Born = { mark: string; folder: string; command: string[]; memoryBytesMax: number | undefined }
type Hear = (from: LogStream, bytes: Buffer) => void

/** When nothing was said for so many turns, nothing is left in the pipes. */
const SILENT_TURNS = 3

/** Who says more at once than this waits for a turn, so that one that never stops does not keep everybody else from theirs. */
const MUCH_BYTES = 32 * 1024

/** All who could hold an output have been killed by then; only one that was not found would hold it for longer. */
const CLOSE_MS_MAX = 1000

/**
 * What of a container goes on in another one when its memory is restored there: its processes, which are known by their mark, its
 * main process among them, and its own folder. It reads what the main process says all the time, whoever hears it.
 */
export class Body {
  readonly mark: string
  readonly folder: string
  readonly exited: Promise<Exit>
  readonly execs = new Set<ExecProcess & { cut(): void }>()
  hear: Hear = () => {}
  readonly #child: ChildProcess
  readonly #closed: Promise<unknown>
  #hasExited = false
  #timesHeard = 0

  private constructor(mark: string, folder: string, child: ChildProcess) {
    this.mark = mark
    this.folder = folder
    this.#child = child
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, killedBy) => {
        this.#hasExited = true
        resolve({ exitCode: exitCodeOf(code, killedBy), at: new Date() })
      })
    })
    this.#closed = new Promise((resolve) => child.once('close', resolve))
    for (const from of ['stdout', 'stderr'] as const) {
      child[from]?.on('data', (bytes: Buffer) => this.#read(from, bytes))
      child[from]?.on('error', () => {}) // it is closed then, and that is waited for
    }
  }

  /** The main process leads a session of its own. Fails with what the system says. */
  static async start(asked: Inside & Born): Promise<Body> {
    const { mark, folder, command, memoryBytesMax, cwd } = asked
    const [program = '', ...args] = memoryBytesMax === undefined ? command : throughShell(command, memoryBytesMax)
    const env = { ...asked.env, [MARK]: mark }
    const child = await launch(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    if (memoryBytesMax !== undefined) beModest(child.pid)
    return new Body(mark, folder, child)
  }

  get pids(): number[] {
    return findProcesses(this.mark).map(({ pid }) => pid)
  }

  /** To the main process only. */
  signal(name: NodeJS.Signals): void {
    if (!this.#hasExited && this.#child.pid !== undefined) signal(this.#child.pid, name)
  }

  /** All that there are. Those that were just being started live on, but not for longer than until the main process has ended. */
  async kill(): Promise<void> {
    await killOnce(this.mark)
  }

  killAll(): Promise<void> {
    return killAll(this.mark)
  }

  /** All that was said before it stood still has been heard. */
  async drain(): Promise<void> {
    for (let silent = 0; silent < SILENT_TURNS; silent++) {
      const before = this.#timesHeard
      await nextTurn()
      if (this.#timesHeard !== before) silent = -1
    }
  }

  /** All are dead, and all that they have said has been heard. */
  async close(): Promise<void> {
    const timer = setTimeout(() => setImmediate(() => this.#closeOutputs()), CLOSE_MS_MAX)
    await this.#closed
    clearTimeout(timer)
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 3 })
  }

  #read(from: LogStream, bytes: Buffer): void {
    this.#timesHeard++
    this.hear(from, bytes)
    const pipe = this.#child[from]
    if (bytes.length < MUCH_BYTES || !pipe) return
    pipe.pause()
    setImmediate(() => pipe.resume())
  }

  #closeOutputs(): void {
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
  }
}
