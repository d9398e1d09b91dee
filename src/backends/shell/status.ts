import { type AgentStatus, BackendError, type Call } from '../backend.ts'
import { ask, type Inside } from './shell.ts'

/**
 * Of an agent that has ended, the exit code is what a shell knows: 128 and the number of a signal may mean that signal, or that it
 * has ended with that code, so no signal is claimed. Of one whose runner has been killed, nobody knows how it ended.
 */
export async function agentStatus(
  inside: Inside,
  part: string,
  call: Call,
): Promise<Extract<AgentStatus, { is: 'none' | 'running' | 'terminated' }>> {
  const { words } = await ask(
    inside,
    `find_base
at=$base/${part}
if [ -z "$base" ] || [ ! -e "$at/runner" ]; then say none; exit; fi
is_there "$at/runner" || is_there "$at/agent"
is_running=$?
# Looked for last: it is written after the agent has ended, and never goes away.
if [ -e "$at/end" ]; then read -r code <"$at/end"; say ended $code
elif [ $is_running -eq 0 ]; then say running
else say unknown; fi`,
    call,
  )
  const [what, code] = words
  if (what === 'none' || what === 'running') return { is: what }
  if (what === 'unknown') return terminated(null)
  if (what === 'ended' && code !== undefined && /^\d+$/.test(code)) return terminated(Number(code))
  throw new BackendError('sandbox_unreachable', `The end of ${part} cannot be read: ${words.join(' ')}`)
}

function terminated(exitCode: number | null): Extract<AgentStatus, { is: 'terminated' }> {
  return { is: 'terminated', exitCode, signal: null, oomKilled: undefined }
}
