import type { Answer } from '../fleet/fleet.ts'
import { exit } from './exits.ts'
import { sentence } from './harmless.ts'
import { paint, STATE_COLOURS } from './paint.ts'
import { took } from './took.ts'

/** What became of a request: for a person, and for the exit code. */
type Result = { code: number; isGood: boolean; text: string }

type Ended = { waitMs: number; isInterrupted: boolean; hasColours: boolean }

export function resultOf({ operation, sandbox }: Answer, { waitMs, isInterrupted, hasColours }: Ended): Result {
  const { id, kind, status, error, outcome, checkpointId, createdAt, settledAt, attempt, lastError } = operation
  const state = paint(sandbox.state, STATE_COLOURS[sandbox.state], hasColours)
  const where = `${sandbox.id}  ${state}`
  if (status === 'succeeded') {
    const how = { done: 'done', already_done: 'was already so', respawned: 'replaced by a fresh one' }[outcome]
    const time = outcome === 'already_done' ? '' : ` in ${took(settledAt.getTime() - createdAt.getTime())}`
    const made = checkpointId && sandbox.state !== 'gone' ? `, ${checkpointId}` : ''
    return { code: exit('done'), isGood: true, text: `${where}  ${kind} ${how}${time}${made}` }
  }
  if (status === 'failed' || status === 'refused') {
    const next = error.retryable ? 'It may be asked for again.' : `"sandman why ${sandbox.id}" tells more.`
    const text = `${sandbox.id}: ${kind} ${status}: ${sentence(error.message)} (${error.errorType}) It is ${sandbox.state}. ${next}`
    return { code: exit(status), isGood: false, text }
  }
  const progress = `${kind} ${status}${attempt > 1 ? `, attempt ${attempt}` : ''}`
  if (waitMs === 0 && !isInterrupted) return { code: exit('done'), isGood: true, text: `${where}  ${progress}, ${id}` }
  const reason = isInterrupted ? 'you stopped waiting' : `not settled within ${took(waitMs)}`
  // Of an operation that somebody stopped waiting for, this may be an old view: it may have been begun since.
  const isUntouched = !isInterrupted && attempt === 0
  const untouched = status === 'waiting' ? 'waits for what was asked before it' : 'is there, and no worker has begun it'
  const trouble = lastError ? ` Its latest attempt failed: ${sentence(lastError.message)}` : ''
  const next = isUntouched ? `"sandman why ${sandbox.id}" tells what that needs.` : `See "sandman show ${id} --watch".`
  return {
    code: exit(isInterrupted ? 'interrupted' : 'unsettled'),
    isGood: false,
    text: `${sandbox.id}: ${reason}; the ${kind} ${isUntouched ? untouched : `goes on (${status})`}.${trouble} ${next}`,
  }
}
