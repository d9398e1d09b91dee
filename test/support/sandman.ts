import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'
import type { EventName } from '../../src/events.ts'

const MAIN = path.resolve(import.meta.dirname, '../../src/main.ts')

type LogLine = { event: EventName; [field: string]: unknown }

/** A real `sandman` process, whose log lines can be waited for. */
export class SandmanProcess {
  readonly child: ChildProcess
  readonly lines: LogLine[] = []
  /** Everything printed, for a look when a test fails. */
  output = ''
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  readonly #changed = new EventTarget()

  constructor(
    args: string[],
    {
      env = {},
      cwd,
      detached = false,
      main = MAIN,
      node = process.execPath,
    }: {
      env?: Record<string, string | undefined>
      cwd?: string
      detached?: boolean
      main?: string
      node?: string
    } = {},
  ) {
    this.child = spawn(node, [main, ...args], {
      cwd,
      detached,
      // Nothing of the shell that runs the tests, except where programs are.
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        TMPDIR: process.env.TMPDIR,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream) createInterface(stream).on('line', (line) => this.#read(line))
    }
    // A test that fails half-way leaves nothing behind.
    onTestFinished(async () => {
      this.kill('SIGKILL')
      await this.exited
    })
    this.exited = new Promise((resolve) => {
      this.child.once('close', (code, signal) => {
        resolve({ code, signal })
        this.#changed.dispatchEvent(new Event('change'))
      })
    })
  }

  #read(line: string): void {
    this.output += `${line}\n`
    if (line.startsWith('{"level"')) this.lines.push(JSON.parse(line) as LogLine)
    this.#changed.dispatchEvent(new Event('change'))
  }

  /** Resolves with the first line of this event; fails when the process ends without one. */
  async logged(event: EventName): Promise<LogLine> {
    return this.#until(`to log ${event}`, () => this.lines.find((line) => line.event === event))
  }

  async printed(text: string | RegExp): Promise<string> {
    return this.#until(`to print ${text}`, () => (this.output.match(text) ? this.output : undefined))
  }

  async #until<T>(what: string, look: () => T | undefined): Promise<T> {
    let ended = false
    const exited = this.exited.then(() => {
      ended = true
    })
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (ended) throw new Error(`The process ended and was still expected ${what}. It printed:\n${this.output}`)
      await Promise.race([
        exited,
        new Promise((resolve) => this.#changed.addEventListener('change', resolve, { once: true })),
      ])
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  async stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.kill('SIGTERM')
    return this.exited
  }
}
