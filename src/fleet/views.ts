import type { CheckpointRow, EventRow, ExecutionRow, OperationRow, SandboxRow } from '../db/schema.ts'
import type { ExecutionReason } from '../sandbox/executions.ts'
import type { FailureType } from '../sandbox/failures.ts'
import type { OperationOutcome } from '../sandbox/operations.ts'
import type { GoneReason, State } from '../sandbox/states.ts'

/** What apps see. Rows have more in them, and change when the schema does; these do not. */

export type Sandbox = {
  id: string
  fleet: string
  backend: string
  state: State
  /** Set when it is gone, and only then. */
  goneReason: GoneReason | null
  providerRef: string | null
  incarnation: string | null
  /** What it can be resumed from. Set when it is suspended, and only as long as the checkpoint is there. */
  checkpoint: Checkpoint | null
  agentThreadId: string | null
  previewUrl: string | null
  metadata: Record<string, unknown>
  /** Its own limits. What is null is its fleet's. */
  ttl: { idleMs: number | null; hardMs: number | null; retentionMs: number | null; ifUnsupported: 'kill' | null }
  createdAt: Date
  stateChangedAt: Date
  lastActiveAt: Date
  /** When its provider ends it by itself, as far as that is known. */
  expiresAt: Date | null
  /** The operation that works on it now. */
  operationId: string | null
}

export type Checkpoint = {
  id: string
  kind: CheckpointRow['kind']
  status: CheckpointRow['status']
  providerRef: string
  name: string | null
  sizeBytes: number | null
  createdAt: Date
  verifiedAt: Date | null
}

export type OperationError = { errorType: FailureType; message: string; retryable: boolean; checkpointId?: string }

type OperationBase = {
  id: string
  sandboxId: string
  kind: OperationRow['kind']
  /** The checkpoint that it made, or found. */
  checkpointId: string | null
  attempt: number
  /** Why the latest attempt failed, when one has. */
  lastError: OperationError | null
  createdAt: Date
  startedAt: Date | null
}

/** Discriminated by `status`: what has failed has an error, and what has succeeded an outcome. */
export type Operation = OperationBase &
  (
    | { status: 'waiting' | 'active'; outcome: null; error: null; settledAt: null }
    | { status: 'succeeded'; outcome: OperationOutcome; error: null; settledAt: Date }
    | { status: 'failed' | 'refused'; outcome: null; error: OperationError; settledAt: Date }
  )

type ExecutionBase = {
  id: string
  sandboxId: string
  /** Null: it follows the agent that the sandbox was made with. */
  command: string[] | null
  /** Breaks of its output in a row that brought nothing. */
  breaks: number
  outputBytes: number
  /** It printed more than may be kept: `outputBytes` of it are. */
  truncated: boolean
  /** The operation that was asked for to wake its sandbox, or to replace it. */
  wakeOperationId: string | null
  createdAt: Date
  lastOutputAt: Date | null
  hardDeadlineAt: Date | null
  cancelRequestedAt: Date | null
}

/** Discriminated by `status`: what has ended has a reason and a time, and what has succeeded the exit code 0. */
export type Execution = ExecutionBase &
  (
    | { status: 'queued'; startedAt: null; endedAt: null; reason: null; exitCode: null; message: null }
    | { status: 'running'; startedAt: Date; endedAt: null; reason: null; exitCode: null; message: null }
    | {
        status: 'succeeded'
        startedAt: Date
        endedAt: Date
        reason: 'completed'
        exitCode: 0
        message: string | null
      }
    | {
        status: 'failed' | 'cancelled'
        startedAt: Date | null
        endedAt: Date
        reason: Exclude<ExecutionReason, 'completed'>
        exitCode: number | null
        message: string | null
      }
  )

export type SandboxEvent = {
  id: number
  sandboxId: string
  at: Date
  type: EventRow['type']
  from: State | null
  to: State | null
  operationId: string | null
  executionId: string | null
  detail: Record<string, unknown>
}

export type Page<Item> = { items: Item[]; nextCursor: string | null }

export function viewSandbox(row: SandboxRow, checkpoint: CheckpointRow | undefined): Sandbox {
  return {
    id: row.id,
    fleet: row.fleet,
    backend: row.backend,
    state: row.state,
    goneReason: row.gone_reason,
    providerRef: row.provider_ref,
    incarnation: row.incarnation,
    checkpoint: checkpoint ? viewCheckpoint(checkpoint) : null,
    agentThreadId: row.agent_thread_id,
    previewUrl: row.preview_url,
    metadata: row.metadata,
    ttl: {
      idleMs: row.idle_ttl_ms,
      hardMs: row.hard_ttl_ms,
      retentionMs: row.retention_ms,
      ifUnsupported: row.idle_if_unsupported,
    },
    createdAt: row.created_at,
    stateChangedAt: row.state_changed_at,
    lastActiveAt: row.last_active_at,
    expiresAt: row.expires_at,
    operationId: row.operation_id,
  }
}

export function viewCheckpoint(row: CheckpointRow): Checkpoint {
  return {
    id: row.id,
    kind: row.kind,
    status: row.status,
    providerRef: row.provider_ref,
    name: row.name,
    sizeBytes: row.size_bytes,
    createdAt: row.created_at,
    verifiedAt: row.verified_at,
  }
}

export function viewOperation(row: OperationRow): Operation {
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    kind: row.kind,
    status: row.status,
    outcome: row.outcome,
    error: viewError(row.error),
    checkpointId: row.checkpoint_id,
    attempt: row.attempt,
    lastError: viewError(row.last_error),
    createdAt: row.created_at,
    startedAt: row.started_at,
    settledAt: row.settled_at,
  } as Operation // that status, outcome, error and settled_at go together is a constraint of the table
}

export function viewError(error: OperationRow['error']): OperationError | null {
  if (!error) return null
  const { error_type, message, retryable, checkpoint_id } = error
  return {
    errorType: error_type,
    message,
    retryable,
    ...(checkpoint_id !== undefined && { checkpointId: checkpoint_id }),
  }
}

export function viewExecution(row: ExecutionRow): Execution {
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    command: row.command,
    status: row.status,
    reason: row.reason,
    exitCode: row.exit_code,
    message: row.message,
    breaks: row.breaks,
    outputBytes: row.output_bytes,
    truncated: row.truncated,
    wakeOperationId: row.wake_operation_id,
    createdAt: row.created_at,
    startedAt: row.started_at,
    lastOutputAt: row.last_output_at,
    endedAt: row.ended_at,
    hardDeadlineAt: row.hard_deadline_at,
    cancelRequestedAt: row.cancel_requested_at,
  } as Execution // that status, reason and times go together are constraints of the table
}

export function viewEvent(row: EventRow): SandboxEvent {
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    at: row.at,
    type: row.type,
    from: row.from_state,
    to: row.to_state,
    operationId: row.operation_id,
    executionId: row.execution_id,
    detail: row.detail,
  }
}
