import type { FailureType } from './failures.ts'
import type { State } from './states.ts'

export const EXECUTION_STATUSES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number]

/** Why an execution has ended, and what that means for whoever reads it. */
export const EXECUTION_REASONS = {
  completed: 'The agent ended by itself, with exit code 0.',
  error: 'The agent ended with another exit code, or could not be started. The message says which.',
  oom_killed: 'The system killed the agent because it used more memory than it may.',
  signal: 'The agent was ended by a signal, and not by the system for its memory.',
  agent_restarted: 'The agent, or its whole sandbox, was started anew in the middle of it.',
  instance_lost: 'Its sandbox is gone, or was put to sleep by its provider.',
  stream_lost: 'Its output ends at once, again and again, although the agent is said to run.',
  deadline_exceeded: 'It took longer than it may, or was silent for longer than it may.',
  cancelled: 'Somebody cancelled it, or paused or ended its sandbox.',
} as const satisfies Record<string, string>
export type ExecutionReason = keyof typeof EXECUTION_REASONS

/** How an execution ended. Recorded once: the first word stands. */
export type ExecutionEnd =
  | { status: 'succeeded'; reason: 'completed'; exitCode: 0; message?: string | undefined }
  | {
      status: 'failed'
      reason: Exclude<ExecutionReason, 'completed' | 'cancelled'>
      exitCode?: number | undefined
      message?: string | undefined
    }
  | { status: 'cancelled'; reason: 'cancelled'; exitCode?: number | undefined; message?: string | undefined }

/** What a caller allows, as it is stored with the execution. */
export type ExecutionOptions = { if_suspended?: 'refuse'; if_lost?: 'respawn' }

/** How many executions one sandbox may have at a time, queued ones included. More is somebody's loop, and is told so. */
export const EXECUTIONS_MAX = 256

/** What becomes of an execution that has not begun, in whichever state its sandbox is. */
type Admission =
  | { answer: 'start' }
  /** An operation is at work, a snapshot too: whatever that comes to has to find all that runs. Looked at again when it has settled. */
  | { answer: 'wait' }
  /** The sandbox is resumed first, or replaced. */
  | { answer: 'wake' }
  | { answer: 'refused'; because: Extract<FailureType, 'sandbox_gone' | 'sandbox_suspended'> }

/** The same for one that is asked for now, and for one whose turn has come: so no answer depends on when it was asked. */
export function admit(state: State, { if_suspended, if_lost }: ExecutionOptions): Admission {
  switch (state) {
    case 'running':
      return { answer: 'start' }
    case 'suspended':
      return if_suspended === 'refuse' ? { answer: 'refused', because: 'sandbox_suspended' } : { answer: 'wake' }
    case 'gone':
      return if_lost === 'respawn' ? { answer: 'wake' } : { answer: 'refused', because: 'sandbox_gone' }
    default:
      return { answer: 'wait' }
  }
}

export function explainRefusal(
  because: 'sandbox_gone' | 'sandbox_suspended' | 'rate_limited',
  sandboxId: string,
): string {
  switch (because) {
    case 'sandbox_gone':
      return `${sandboxId} is gone: ask with "if lost: respawn" to run it in a fresh one under the same id, or spawn a new sandbox.`
    case 'sandbox_suspended':
      return `${sandboxId} sleeps, and the execution was not to wake it: ask without "if suspended: refuse".`
    case 'rate_limited':
      return `${sandboxId} already has ${EXECUTIONS_MAX} executions: ask again when some of them have ended.`
  }
}
