import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, onTestFinished } from 'vitest'
import type { Call, Piece } from '../../../src/backends/backend.ts'
import type { Inside, Shell } from '../../../src/backends/shell/shell.ts'
import { endFormer } from '../../../src/backends/shell/stop.ts'

export const CALL: Call = { signal: new AbortController().signal }
export const KEY = `exe_${'e'.repeat(26)}`
export const IDLING = ['sleep', '1000']
export const sh = (script: string) => ['sh', '-c', script]

const SYSTEM_PATH = '/usr/local/bin:/usr/bin:/bin'

/** The shells that this machine has. With busybox, every tool is busybox's as well. */
export const ALL_SHELLS = [
  { name: 'dash', program: '/bin/dash', has: 'the tools of the system' },
  { name: 'bash', program: '/bin/bash', has: 'the tools of the system' },
  { name: 'busybox', program: '/bin/busybox', has: 'the tools of busybox' },
].filter(({ program }) => existsSync(program))

/** Those that differ most: what is tried in all of them takes its time. */
export const SHELLS = ALL_SHELLS.filter(({ name }) => name !== 'bash')

export type Bench = Inside & {
  folder: string
  /** What the folder of an agent is in, for who wants to see or to spoil it. */
  agentFolder(part: string): string
  output(part?: string): Promise<string>
  isInPlace(file: string): boolean
}

/** A folder that plays the home of a sandbox. Whatever was started in it has ended when the test is over. */
export async function setup({ shell: name = 'dash', root = 'life-1' } = {}): Promise<Bench> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-shell-'))
  const tools = path.join(folder, 'tools')
  await mkdir(tools)
  const { program } = ALL_SHELLS.find((each) => each.name === name) ?? expect.unreachable()
  const applets = name === 'busybox' ? execFileSync(program, ['--list'], { encoding: 'utf8' }).trim().split('\n') : []
  for (const applet of ['sh', ...applets]) await symlink(program, path.join(tools, applet)).catch(() => {})
  const PATH = name === 'busybox' ? tools : `${tools}:${SYSTEM_PATH}`
  // Named after the folder, because all tests share one machine.
  const own = `${root}-${path.basename(folder)}`
  const shell = openShell({ HOME: folder, PATH }, path.join(tools, 'sh'))
  onTestFinished(async () => {
    await endFormer({ shell, root: 'nobody' }, CALL)
    await rm(folder, { recursive: true, force: true })
  })
  const agentFolder = (part: string) => path.join(folder, '.sandman', own, part)
  return {
    shell,
    root: own,
    folder,
    agentFolder,
    output: (part = KEY) => readFile(path.join(agentFolder(part), 'output'), 'utf8'),
    isInPlace: (file) => existsSync(path.join(folder, file)),
  }
}

/** What a provider gives: a shell on the other side, here of a pipe. Scripts outlive who has asked for them. */
export function openShell(env: Record<string, string>, program: string): Shell {
  const begin = (script: string) =>
    spawn(program, ['-c', script], { cwd: env.HOME, env, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
  return {
    async run(script, { signal }) {
      const { promise, resolve, reject } = Promise.withResolvers<{ exitCode: number; output: string }>()
      const child = begin(script)
      const output: Buffer[] = []
      child.stdout.on('data', (bytes: Buffer) => output.push(bytes))
      child.once('error', reject)
      child.once('close', (code) => resolve({ exitCode: code ?? 137, output: Buffer.concat(output).toString() }))
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      return promise
    },
    async *stream(script, { signal }) {
      const child = begin(script)
      const closed = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? 137)))
      const giveUp = () => child.stdout.destroy(signal.reason)
      signal.addEventListener('abort', giveUp)
      try {
        for await (const bytes of child.stdout) yield bytes as Uint8Array
        return { exitCode: await closed }
      } finally {
        signal.removeEventListener('abort', giveUp)
        child.kill('SIGKILL')
      }
    },
  }
}

export async function readAll(pieces: AsyncIterable<Piece>) {
  const all: Piece[] = []
  for await (const piece of pieces) all.push(piece)
  return {
    bytes: Buffer.concat(all.map(({ bytes }) => bytes)),
    sizes: all.map(({ bytes }) => bytes.length),
    cursor: all.at(-1)?.cursor,
    isLast: all.at(-1)?.isLast ?? false,
  }
}

export const terminated = (exitCode: number | null) => ({
  is: 'terminated',
  exitCode,
  signal: null,
  oomKilled: undefined,
})

/** As the system tells it: Z has ended. Undefined when there is no such process. */
export async function isGone(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return [undefined, 'Z'].includes(status.match(/^State:\s+(\S)/m)?.[1])
}
