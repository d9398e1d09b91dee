import { type ChildProcess, spawn } from 'node:child_process'
import { writeSync } from 'node:fs'
import path from 'node:path'
import { describeError } from '../../errors.ts'
import { INSTANCE_VARIABLE, PART_VARIABLE } from '../shell/prelude.ts'
import { entriesOf, type Part } from './cgroups.ts'
import type { Instance } from './instance.ts'

/**
 * Enters the cgroups before the command can start anything, and then becomes it. A command that cannot be started is a shell's
 * 127 (or 126) with a shell's message in the output, whoever asked for it.
 */
const ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do { echo $$ >"$1"; } 2>/dev/null; shift; n=$((n-1)); done; exec "$@"'

const PATH = [
  path.dirname(process.execPath),
  '/opt/homebrew/bin',
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
].join(':')

/** Nothing of the environment that the worker has: there are passwords in it. */
export const CLEAN_ENVIRONMENT = { PATH, LANG: 'C.UTF-8' }

export type Launch = {
  part: Part
  /** The part whose cgroup it is put into: its own, unless it has none. */
  leaf?: Part
  command: readonly string[]
  env: Record<string, string> | undefined
  /** Where its output goes: a file, so that it depends on nobody who reads it. */
  output: number
}

/** How a shell ends that has found a command, and cannot start it. */
export const EXIT_CODE_REFUSED = 126

/**
 * Starts a process of a sandbox in its workspace, with a session of its own. Undefined when its command and its environment
 * are more than the system takes: then there is not even a shell that could say so, and it is said in its place.
 */
export function launch(instance: Instance, asked: Launch): ChildProcess | undefined {
  try {
    return spawnPart(instance, asked)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'E2BIG') throw error
    writeSync(asked.output, `The command and its environment are too large: ${describeError(error)}\n`)
    return undefined
  }
}

function spawnPart({ labels, workspace }: Instance, { part, leaf = part, command, env, output }: Launch): ChildProcess {
  const entries = entriesOf(labels.cgroups, leaf)
  return spawn('/bin/sh', ['-c', ENTER, 'sh', String(entries.length), ...entries, ...command], {
    cwd: workspace,
    env: {
      ...CLEAN_ENVIRONMENT,
      HOME: workspace,
      ...env,
      [INSTANCE_VARIABLE]: labels.mark,
      [PART_VARIABLE]: part,
    },
    detached: true,
    stdio: ['ignore', output, output],
  })
}
