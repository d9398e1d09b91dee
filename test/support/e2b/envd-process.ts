import { type ChildProcess, spawn } from 'node:child_process'
import os from 'node:os'
import { signal } from '../machine.ts'
import { RpcError } from './rpc.ts'

export type ProcessConfig = { cmd: string; args?: string[]; envs?: Record<string, string>; cwd?: string }
export type Asked = { config: ProcessConfig; tag: string | undefined; hasStdin: boolean; timeoutMs: number }
export type End = { exitCode: number; exited: boolean; status: string; error?: string }
export type Output = 'stdout' | 'stderr'

/** Who follows a process from now on. One that has enough for the moment says so, and asks for more by `flow`. */
export type Follower = { take(from: Output, bytes: Buffer): 'more' | 'enough'; end(end: End): void }

/** Of what is killed, whoever inherited its output may keep that open for ever: nobody waits for them longer than this. */
const LAST_WORDS_MS = 50

/**
 * A process that was started through envd. It lives on when nobody follows it, and nothing that it writes meanwhile is kept.
 * Here it leads a group of its own, so that what it signals is never this server; in a real sandbox it is in envd's.
 */
export class EnvdProcess {
  readonly pid: number
  readonly config: ProcessConfig
  readonly tag: string | undefined
  readonly #child: ChildProcess
  readonly #followers = new Set<Follower>()
  readonly #sated = new Set<Follower>()
  readonly #deadline: Deadline | undefined
  #isTold = false

  constructor(
    { config, tag, hasStdin, timeoutMs }: Asked,
    cwd: string,
    env: NodeJS.ProcessEnv,
    onEnd: (end: End) => void,
  ) {
    // By way of a shell, as there, so that a program that does not exist ends with 127.
    this.#child = spawn('/bin/sh', ['-c', 'exec "$@"', 'sh', config.cmd, ...(config.args ?? [])], {
      cwd,
      env,
      detached: true,
      stdio: [hasStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    })
    if (this.#child.pid === undefined) {
      this.#child.on('error', () => {})
      throw new RpcError('invalid_argument', `error starting process '${config.cmd}' in '${cwd}'`)
    }
    this.pid = this.#child.pid
    this.config = config
    this.tag = tag
    this.#deadline = timeoutMs > 0 ? new Deadline(timeoutMs, () => this.signal('SIGKILL')) : undefined
    this.#child.stdin?.on('error', () => {}) // it has closed it, or ended
    for (const from of ['stdout', 'stderr'] as const)
      this.#child[from]?.on('data', (bytes: Buffer) => this.#handOut(from, bytes)).pause()
    this.#child.on('exit', () => {
      this.#deadline?.clear()
      if (this.#isTold) setTimeout(() => this.#closeOutputs(), LAST_WORDS_MS)
    })
    this.#child.on('close', (code, killedBy) => {
      const end = endOf(code, killedBy)
      onEnd(end)
      for (const follower of this.#followers) follower.end(end)
    })
  }

  /** The first to follow misses nothing. */
  follow(follower: Follower): void {
    this.#followers.add(follower)
    this.flow()
  }

  unfollow(follower: Follower): void {
    this.#followers.delete(follower)
    this.flow(follower)
  }

  /** Its output is read again once everybody who follows can take more: the slowest holds up all, and the process too. */
  flow(follower?: Follower): void {
    if (follower) this.#sated.delete(follower)
    if (this.#sated.size > 0) return
    this.#child.stdout?.resume()
    this.#child.stderr?.resume()
  }

  /** To this one process, and not to what it has started. */
  signal(name: 'SIGKILL' | 'SIGTERM'): void {
    this.#isTold = true
    signal(this.pid, name)
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) this.#closeOutputs()
  }

  write(bytes: Buffer): void {
    if (!this.#child.stdin?.writable)
      throw new RpcError('internal', 'error writing to stdin: stdin not enabled or closed')
    this.#child.stdin.write(bytes)
  }

  closeStdin(): void {
    this.#child.stdin?.end()
  }

  /** In a machine that stands still, no time passes. */
  stopTime(): void {
    this.#deadline?.stop()
  }

  startTime(): void {
    this.#deadline?.start()
  }

  #handOut(from: Output, bytes: Buffer): void {
    for (const follower of this.#followers) if (follower.take(from, bytes) === 'enough') this.#sated.add(follower)
    if (this.#sated.size === 0) return
    this.#child.stdout?.pause()
    this.#child.stderr?.pause()
  }

  #closeOutputs(): void {
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
  }
}

class Deadline {
  #leftMs: number
  #since = 0
  #timer: NodeJS.Timeout | undefined
  readonly #strike: () => void

  constructor(ms: number, strike: () => void) {
    this.#leftMs = ms
    this.#strike = strike
    this.start()
  }

  start(): void {
    if (this.#timer || this.#leftMs < 0) return
    this.#since = performance.now()
    this.#timer = setTimeout(this.#strike, this.#leftMs).unref()
  }

  stop(): void {
    if (!this.#timer) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#since))
  }

  clear(): void {
    this.stop()
    this.#leftMs = -1
  }
}

/** In the words of Go, which envd is written in. */
function endOf(code: number | null, killedBy: NodeJS.Signals | null): End {
  if (killedBy === null) {
    const status = `exit status ${code}`
    return { exitCode: code ?? -1, exited: true, status, ...(code !== 0 && { error: status }) }
  }
  const words: Partial<Record<NodeJS.Signals, string>> = {
    SIGKILL: 'killed',
    SIGTERM: 'terminated',
    SIGINT: 'interrupt',
  }
  const status = `signal: ${words[killedBy] ?? `signal ${os.constants.signals[killedBy]}`}`
  return { exitCode: -1, exited: false, status, error: status }
}
