import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { entriesOf, type Part } from './cgroups.ts'
import type { Instance } from './instance.ts'
import { MARK_VARIABLE, PART_VARIABLE } from './processes.ts'

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
  command: readonly string[]
  env: Record<string, string> | undefined
  /** Where its output goes: a file, so that it depends on nobody who reads it. */
  output: number
}

/** Starts a process of a sandbox in its workspace, with a session of its own. */
export function launch({ labels, workspace }: Instance, { part, command, env, output }: Launch): ChildProcess {
  const entries = entriesOf(labels.cgroups, part)
  return spawn('/bin/sh', ['-c', ENTER, 'sh', String(entries.length), ...entries, ...command], {
    cwd: workspace,
    env: {
      ...CLEAN_ENVIRONMENT,
      HOME: workspace,
      ...env,
      [MARK_VARIABLE]: labels.mark,
      [PART_VARIABLE]: part,
    },
    detached: true,
    stdio: ['ignore', output, output],
  })
}
