import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const MAIN = path.resolve(import.meta.dirname, '../src/main.ts')
/** One that cannot start, because its database is away, is tried again after this. */
const AGAIN_MS = 100

type KeptOptions = {
  name: string
  args: string[]
  env: Record<string, string>
  logFile: string
}

/** A `sandman` process that is started again whenever it ends, as a service manager does it. It ends with this one. */
export class KeptProcess {
  readonly name: string
  /** How it ended when nobody had ended it. */
  readonly crashes: string[] = []
  readonly #options: KeptOptions
  #child: ChildProcess | undefined
  #ready = Promise.withResolvers<void>()
  #exited: Promise<number | null> = Promise.resolve(null)
  #isReady = false
  #readyAt = 0
  #isWanted = true
  #wasKilled = false

  constructor(options: KeptOptions) {
    this.#options = options
    this.name = options.name
    this.#start()
  }

  /** Of the one that runs now; undefined while there is none. */
  get pid(): number | undefined {
    return this.#child?.exitCode === null && this.#child.signalCode === null ? this.#child.pid : undefined
  }

  /** It has been at work for so long, and nobody has killed it. */
  hasWorkedFor(ms: number): boolean {
    return this.#isReady && !this.#wasKilled && this.pid !== undefined && Date.now() - this.#readyAt >= ms
  }

  /** Until it works, however often it has to be started for that. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  signal(signal: NodeJS.Signals): void {
    if (this.pid !== undefined) this.#child?.kill(signal)
  }

  /** Returns when another one has taken its place. */
  async kill(): Promise<void> {
    this.#wasKilled = true
    this.signal('SIGKILL')
    await this.#exited
  }

  /** Without another one. */
  abandon(): void {
    this.#isWanted = false
    this.signal('SIGKILL')
  }

  /** As in a deploy. Gives its exit code, or null when it had to be killed after all. */
  async stop(withinMs: number): Promise<number | null> {
    this.#isWanted = false
    this.signal('SIGCONT')
    this.signal('SIGTERM')
    const timer = setTimeout(() => this.signal('SIGKILL'), withinMs)
    const code = await this.#exited
    clearTimeout(timer)
    return code
  }

  #start(): void {
    const { args, env, logFile } = this.#options
    const log = openSync(logFile, 'a')
    const child = spawn(process.execPath, [MAIN, ...args, '--supervised'], {
      env,
      stdio: ['ignore', log, log, 'ipc'],
    })
    closeSync(log)
    this.#child = child
    this.#wasKilled = false
    if (this.#isReady) this.#ready = Promise.withResolvers<void>()
    this.#isReady = false
    child.once('message', () => {
      this.#isReady = true
      this.#readyAt = Date.now()
      this.#ready.resolve()
    })
    this.#exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#ended(code, signal)
        resolve(code)
      })
    })
  }

  #ended(code: number | null, signal: NodeJS.Signals | null): void {
    if (!this.#isWanted) return
    const fell = this.#isReady && !this.#wasKilled
    if (fell) this.crashes.push(`${this.name} ended by itself, with ${signal ?? `exit code ${code}`}`)
    if (this.#wasKilled) this.#start()
    else void sleep(AGAIN_MS).then(() => this.#isWanted && this.#start())
  }
}
