import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { machinesMarkedBy } from '../machine.ts'
import { OutputStream } from './output-stream.ts'

const MARK = 'AGENTUITY_SANDBOX_ID'
export const { findProcesses, freeze, thaw, killAll } = machinesMarkedBy(MARK)

const run = promisify(execFile)

/** Of what is killed, whoever inherited its output may keep that open for ever: nobody waits for them longer than this. */
const LAST_WORDS_MS = 50

export type Started = {
  id: string
  command: string[]
  startedAt: string
  completedAt: string | undefined
  exitCode: number | undefined
  output: OutputStream
  /** Resolves when it has ended. */
  ended: Promise<void>
  kill(): void
}

/**
 * A machine that is none: a folder as its home, and the processes that were started in it. It shares the rest of the file system
 * and all ports with this machine, so only what is below its home is kept, copied and removed.
 */
export class Machine {
  readonly id: string
  readonly folder: string
  readonly started = new Map<string, Started>()
  readonly #env: Record<string, string>

  private constructor(id: string, folder: string, env: Record<string, string>) {
    this.id = id
    this.folder = folder
    this.#env = env
  }

  /** With an empty home, or with a copy of these files. */
  static async start(id: string, folder: string, env: Record<string, string>, files?: string): Promise<Machine> {
    if (files === undefined) await mkdir(folder, { recursive: true })
    else await copyFolder(files, folder)
    return new Machine(id, folder, env)
  }

  spawn(kind: 'job' | 'exe', command: string[]): Started {
    const [program = '', ...words] = command
    const env = { PATH: process.env.PATH, HOME: this.folder, ...this.#env, [MARK]: this.id }
    // By way of a shell, so that a program that does not exist ends with 127. It leads a group of its own.
    const child = spawn('/bin/sh', ['-c', 'exec "$@"', 'sh', program, ...words], {
      cwd: this.folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = Promise.withResolvers<void>()
    const closeOutputs = () => {
      child.stdout.destroy()
      child.stderr.destroy()
    }
    const started: Started = {
      id: `${kind}_${randomBytes(12).toString('hex')}`,
      command,
      startedAt: new Date().toISOString(),
      completedAt: undefined,
      exitCode: undefined,
      output: new OutputStream(),
      ended: ended.promise,
      kill: () => {
        if (child.pid === undefined || started.completedAt !== undefined) return
        try {
          process.kill(-child.pid, 'SIGKILL')
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
        }
        setTimeout(closeOutputs, LAST_WORDS_MS).unref()
      },
    }
    for (const from of [child.stdout, child.stderr]) from.on('data', (bytes: Buffer) => started.output.push(bytes))
    child.on('exit', (_code, signal) => signal && setTimeout(closeOutputs, LAST_WORDS_MS).unref())
    child.on('close', (code, signal) => {
      started.exitCode = signal === null ? (code ?? -1) : 137
      started.completedAt = new Date().toISOString()
      started.output.end()
      ended.resolve()
    })
    this.started.set(started.id, started)
    return started
  }

  /** Everything stands still, and those who listen have heard all they will. */
  async suspend(): Promise<void> {
    await freeze(this.id)
    for (const { output } of this.started.values()) output.letGo()
  }

  wake(): void {
    thaw(this.id)
  }

  async copyTo(folder: string): Promise<void> {
    await copyFolder(this.folder, folder)
  }

  /** Nothing of what was there is left, and it runs. */
  async wipe(): Promise<void> {
    await killAll(this.id)
    await rm(this.folder, { recursive: true, force: true })
    await mkdir(this.folder, { recursive: true })
  }

  async destroy(): Promise<void> {
    await killAll(this.id)
    for (const { output } of this.started.values()) output.letGo()
    await rm(this.folder, { recursive: true, force: true })
  }
}

/** By the system's own program, which also copies pipes and sockets. */
async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(path.dirname(to), { recursive: true })
  await run('cp', ['-a', from, to])
}
