import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { machinesMarkedBy } from '../../machine.ts'
import type { Inside } from './inside.ts'

/** In the environment of every process of a container, and the same for as long as that lives, in however many containers. */
export const MARK = 'FAKE_KUBERNETES_PROCESSES'

export const { membersAmong, findProcesses, freeze, thaw, killOnce, killAll } = machinesMarkedBy(MARK)

/**
 * Beyond its memory, a container may ask for so many times more, which the system then refuses: whoever watches it kills it long before
 * that, and if he does not come to look, this machine is not endangered.
 */
const REFUSED_AT_TIMES = 16

/** So that whoever watches a process that eats memory comes to look more often than it comes to eat. */
const POLITE_PRIORITY = 10

/** By way of a shell, which can say to the system how much it may have. */
export function throughShell(command: string[], memoryBytesMax: number | undefined, { isOneOutput = false } = {}) {
  const limit =
    memoryBytesMax === undefined ? '' : `ulimit -d ${Math.ceil((memoryBytesMax * REFUSED_AT_TIMES) / 1024)}; `
  return ['/bin/sh', '-c', `${limit}exec "$@"${isOneOutput ? ' 2>&1' : ''}`, 'sh', ...command] as const
}

/** In a session of its own. Fails with what the system says, which it may say at once or later. */
export function launch(program: string, args: readonly string[], options: SpawnOptions) {
  return new Promise<ChildProcess & { pid: number }>((resolve, reject) => {
    const child = spawn(program, args, { ...options, detached: true })
    const { pid } = child
    if (pid === undefined) child.once('error', reject)
    else resolve(Object.assign(child, { pid }))
  })
}

export function beModest(pid: number): void {
  try {
    os.setPriority(pid, POLITE_PRIORITY)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SYSTEM_ERROR') throw error // it has ended meanwhile
  }
}

/** Why this cannot be started, in the words of a runtime; undefined when it can. */
export function refusalOf([program]: string[], { cwd, env }: Inside) {
  if (!program) return 'no command specified'
  const folders = program.includes('/') ? [''] : (env.PATH ?? '').split(':').filter(Boolean)
  const files = folders.map((folder) => path.resolve(cwd, folder, program)).filter(isFile)
  if (files.some(isExecutable)) return undefined
  const exec = `unable to start container process: exec: ${JSON.stringify(program)}`
  if (files.length > 0) return `${exec}: permission denied`
  return `${exec}: ${program.includes('/') ? `stat ${program}: no such file or directory` : 'executable file not found in $PATH'}`
}

/** As a shell says it of a process that was killed by a signal. */
export function exitCodeOf(code: number | null, killedBy: NodeJS.Signals | null): number {
  return killedBy === null ? (code ?? 0) : 128 + os.constants.signals[killedBy]
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? false
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
