import type { ExecutionEnd } from '../sandbox/executions.ts'
import { type Failure, storable, storableJson } from '../sandbox/failures.ts'
import type { OperationOutcome } from '../sandbox/operations.ts'
import type { GoneReason } from '../sandbox/states.ts'
import type { CheckpointRow } from './schema.ts'
import type { Attempt } from './take.ts'

/** A checkpoint that the provider was seen to have. */
export type SeenCheckpoint = {
  kind: CheckpointRow['kind']
  providerRef: string
  name?: string | undefined
  sizeBytes?: number | undefined
}

/** What is true of the sandbox at its provider now that the operation has ended. What is left out stays as it was. */
export type Rest =
  | {
      state: 'running'
      providerRef?: string | undefined
      incarnation?: string | undefined
      previewUrl?: string | undefined
      /** When the provider ends it by itself. */
      expiresAt?: Date | undefined
      snapshot?: SeenCheckpoint
    }
  /** Without a checkpoint it keeps the one it has; a sandbox that has none cannot be stored as suspended. */
  | { state: 'suspended'; providerRef?: string | undefined; checkpoint?: SeenCheckpoint }
  | { state: 'gone'; reason: GoneReason }

export type Ending = {
  rest: Rest
  /** What became of checkpoints: of the one it was suspended with, or of every one it had. */
  checkpoints?: { which: 'own' | 'all'; are: 'missing' | 'deleted' }
  /** What was seen at the provider, for whoever asks why. */
  evidence?: Record<string, unknown>
  /** Nobody had wanted it: what ran there was cut off, and not cancelled. */
  isUnasked?: true
} & ({ status: 'succeeded'; outcome: OperationOutcome } | { status: 'failed' | 'refused'; error: Failure })

/** What becomes of executions that run in a sandbox which does not, or not as the incarnation that they began in. */
export function executionsAfter({ rest, ...ending }: Ending): ExecutionEnd {
  if (rest.state === 'running') {
    return { status: 'failed', reason: 'agent_restarted', message: 'Its sandbox runs as another incarnation.' }
  }
  const { isUnasked = false, status } = ending
  const asked = rest.state === 'suspended' ? status === 'succeeded' && !isUnasked : WISHED.includes(rest.reason)
  const sleeps = isUnasked ? 'was put to sleep by its provider' : 'was suspended'
  const what = rest.state === 'suspended' ? sleeps : `is gone: ${rest.reason}`
  if (asked) return { status: 'cancelled', reason: 'cancelled', message: `Its sandbox ${what}.` }
  const why = ending.status === 'succeeded' ? '' : ` ${ending.error.message}`
  return { status: 'failed', reason: 'instance_lost', message: `Its sandbox ${what}.${why}` }
}

/** Reasons for which a sandbox is gone because somebody wanted it to be. */
const WISHED: readonly GoneReason[] = ['killed', 'destroyed', 'pause_unsupported']

/** An ending of an attempt, in the words of the statement that settles it. What is null, or left out, stays as it was. */
export function given({ operationId, fence }: Attempt, ending: Ending): string {
  const { rest, checkpoints, status, evidence } = ending
  const running = rest.state === 'running' ? rest : undefined
  const { message = '', ...end } = executionsAfter(ending)
  const outcome = status === 'succeeded' ? ending.outcome : null
  const reason = rest.state === 'gone' ? rest.reason : null
  return JSON.stringify({
    of_operation: operationId,
    of_fence: fence,
    to_state: rest.state,
    to_reason: reason,
    to_ref: rest.state === 'gone' ? null : rest.providerRef,
    to_incarnation: running?.incarnation,
    to_url: running?.previewUrl,
    to_expiry: running?.expiresAt,
    makes: rest.state === 'suspended' ? rest.checkpoint : running?.snapshot,
    retires: checkpoints?.which,
    retires_as: checkpoints?.are,
    ends_as: status,
    ends_with: outcome,
    ends_for: status === 'succeeded' ? null : ending.error,
    cuts_off: { status: end.status, reason: end.reason, message: storable(message) },
    // Who ends a sandbox on purpose has ended what was asked of it before: that does not bring it back.
    cuts_off_queued: rest.state === 'gone' && WISHED.includes(rest.reason),
    // What was seen may contain whatever a sandbox or a provider has said.
    tells: storableJson({ status, outcome, reason, evidence }),
  })
}
