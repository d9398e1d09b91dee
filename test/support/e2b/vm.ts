import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import path from 'node:path'
import { promisify } from 'node:util'
import { type Asked, type End, EnvdProcess } from './envd-process.ts'
import { freeze, killAll, MARK, thaw } from './machine.ts'
import { RpcError } from './rpc.ts'

export type Selector = { pid?: number; tag?: string }
type Boot = {
  id: string
  folder: string
  templateId: string
  envs: Record<string, string>
  exitRetentionMs: number
}

const run = promisify(execFile)

/** Where a real sandbox has its home. What is said of it is meant for the folder that plays it. */
const REAL_HOME = '/home/user'

/**
 * A machine that is none: a folder as its home, and the processes that were started in it. It shares the rest of the file system
 * and all ports with this machine, so only what is below its home is kept, copied and removed.
 */
export class Vm {
  readonly id: string
  readonly folder: string
  readonly processes = new Map<number, EnvdProcess>()
  /** How those ended that ended lately: a late `Connect` is still told. */
  readonly ends = new Map<number, { tag: string | undefined; end: End }>()
  /** Answers that go on as long as it runs. */
  readonly streams = new Set<ServerResponse>()
  /** Whatever is started is killed at once. */
  hasMemory = true
  readonly #boot: Boot

  private constructor(boot: Boot) {
    this.#boot = boot
    this.id = boot.id
    this.folder = boot.folder
  }

  /** With an empty home, or with a copy of these files. What has run when those were copied does not run again: here is no memory. */
  static async start(boot: Boot, files?: string): Promise<Vm> {
    await rm(boot.folder, { recursive: true, force: true })
    if (files === undefined) await mkdir(boot.folder, { recursive: true })
    else await copyFolder(files, boot.folder)
    return new Vm(boot)
  }

  spawn(asked: Asked): EnvdProcess {
    const cwd = this.resolve(asked.config.cwd ?? '')
    if (!existsSync(cwd)) throw new RpcError('invalid_argument', `cwd '${cwd}' does not exist`)
    const started = new EnvdProcess(asked, cwd, this.#environment(asked), (end) => this.#keepEnd(started, end))
    this.processes.set(started.pid, started)
    // What was told of another process with this pid, or this tag, is not told of this one.
    for (const [pid, { tag }] of this.ends)
      if (pid === started.pid || (tag !== undefined && tag === started.tag)) this.ends.delete(pid)
    if (!this.hasMemory) started.signal('SIGKILL')
    return started
  }

  find({ pid, tag }: Selector): EnvdProcess {
    const found = [...this.processes.values()].find((one) => (pid !== undefined ? one.pid === pid : one.tag === tag))
    if (found) return found
    throw new RpcError(
      'not_found',
      pid !== undefined ? `process with pid ${pid} not found` : `process with tag ${tag} not found`,
    )
  }

  findEnd({ pid, tag }: Selector): { pid: number; end: End } | undefined {
    for (const [ended, { tag: hadTag, end }] of this.ends)
      if (pid !== undefined ? ended === pid : hadTag !== undefined && hadTag === tag) return { pid: ended, end }
    return undefined
  }

  /** Relative to its home. A path beyond it would be one of this machine. */
  resolve(name: string): string {
    const own = name.replace(/^~(?=\/|$)/, this.folder).replace(new RegExp(`^${REAL_HOME}(?=/|$)`), this.folder)
    return path.resolve(this.folder, own)
  }

  /** Everything stands still. Those who listen are cut off, as by a proxy whose way to the machine is gone. */
  async pause(): Promise<void> {
    this.cutStreams()
    await this.freeze()
  }

  async freeze(): Promise<void> {
    await freeze(this.id)
    for (const one of this.processes.values()) one.stopTime()
  }

  thaw(): void {
    for (const one of this.processes.values()) one.startTime()
    thaw(this.id)
  }

  async copyTo(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true })
    await copyFolder(this.folder, folder)
  }

  /** The processes die; the machine stays. */
  killProcesses(): Promise<void> {
    return killAll(this.id)
  }

  async destroy(): Promise<void> {
    this.cutStreams()
    await killAll(this.id)
    await rm(this.folder, { recursive: true, force: true })
  }

  cutStreams(): void {
    for (const response of this.streams) response.destroy()
    this.streams.clear()
  }

  #keepEnd({ pid, tag }: EnvdProcess, end: End): void {
    this.processes.delete(pid)
    if (this.#boot.exitRetentionMs === 0) return
    const kept = { tag, end }
    this.ends.set(pid, kept)
    const forget = () => this.ends.get(pid) === kept && this.ends.delete(pid)
    setTimeout(forget, this.#boot.exitRetentionMs).unref()
  }

  #environment({ config }: Asked): NodeJS.ProcessEnv {
    return {
      PATH: process.env.PATH,
      HOME: this.folder,
      USER: 'user',
      LOGNAME: 'user',
      ...this.#boot.envs,
      ...config.envs,
      E2B_SANDBOX: 'true',
      E2B_TEMPLATE_ID: this.#boot.templateId,
      [MARK]: this.id,
    }
  }
}

/** By the system's own program, which also copies pipes and sockets. */
async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(path.dirname(to), { recursive: true })
  await run('cp', ['-a', from, to])
}
