import type { ColumnType, Selectable } from 'kysely'
import type { Cause } from '../sandbox/causes.ts'
import type { CheckpointKind, CheckpointStatus } from '../sandbox/checkpoints.ts'
import type { ExecutionOptions, ExecutionReason, ExecutionStatus } from '../sandbox/executions.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { FindingKind, Look } from '../sandbox/findings.ts'
import type { Kind, Options, WrittenVerdict } from '../sandbox/judge.ts'
import type { OperationOutcome, OperationStatus } from '../sandbox/operations.ts'
import type { GoneReason, MoveName, SettledState, State } from '../sandbox/states.ts'
import type { Wish } from '../sandbox/stream-end.ts'

/** Never written by the code: the database fills it in. */
type SetByDatabase<T> = ColumnType<T, never, never>

/**
 * A canary proves that the way from a request to a worker is open: a row here, a job that points to it, and a worker that
 * signs the row. `sandman dev` sends one before it says that it is ready, `sandman doctor` whenever it is asked.
 */
type CanariesTable = {
  id: SetByDatabase<string>
  fleet: string
  sent_at: ColumnType<Date, Date | undefined, never>
  answered_at: ColumnType<Date | null, never, Date>
  answered_by: ColumnType<string | null, never, string>
}

export type CanaryRow = Selectable<CanariesTable>

/** Read with kysely; written only by the statements of request, take, settle and their like, which keep the rules. */
type ReadOnly<Row> = { [Column in keyof Row]: ColumnType<Row[Column], never, never> }

/** What a sandbox is made from, in the words of the backends: kept with its row, and understood by nobody here. */
export type SpecAsKept = Record<string, unknown>

export type SandboxRow = {
  id: string
  fleet: string
  backend: string
  /** What its backend could do when it was made: what is asked of it is judged by this. */
  can_pause: boolean
  can_snapshot: boolean
  spec: SpecAsKept
  metadata: Record<string, unknown>
  agent_thread_id: string | null
  state: State
  state_changed_at: Date
  gone_reason: GoneReason | null
  gone_at: Date | null
  provider_ref: string | null
  incarnation: string | null
  preview_url: string | null
  /** What it can be resumed from. A ready one of this sandbox, or the database refuses it. */
  checkpoint_id: string | null
  /** The number of the latest attempt. A write that carries an older one changes nothing. */
  fence: number
  /** The operation at work on it. An active one of this sandbox, or the database refuses it. */
  operation_id: string | null
  /** How many operations wait behind it. */
  waiting: number
  /** The last of the line, and what it asks for: who asks for the same joins it. */
  tail_id: string | null
  tail_fingerprint: string | null
  /** When the queue is rung again for its operation, if nobody has settled it by then. */
  ring_at: Date | null
  /** How many of its executions have not ended. */
  open_executions: number
  idle_ttl_ms: number | null
  /** What its own idle limit does where its backend cannot pause. */
  idle_if_unsupported: 'kill' | null
  hard_ttl_ms: number | null
  retention_ms: number | null
  /** When each of its own limits is reached, as things are now. */
  idle_at: Date | null
  hard_at: Date | null
  retention_at: Date | null
  /** Since when it sleeps. A resume that failed has not woken it. */
  suspended_at: Date | null
  /** The reaper has asked for something, and does not ask again before this. */
  reap_after: Date | null
  created_at: Date
  last_active_at: Date
  expires_at: Date | null
  renew_after: Date | null
}

/** `wakes`: a pause that found nothing to resume from later was about to wake it again. */
export type GivingUp = Failure & { wakes?: true }

export type OperationRow = {
  id: string
  sandbox_id: string
  kind: Kind
  /** Of a spawn: the spec and the thread that it was asked for with, and so none of these. */
  options: Options
  /** Who asked for it, and by what right, when it was no app. */
  cause: Cause | null
  fingerprint: string
  place: number
  /** While it waits: what it will be told in whichever state its turn finds the sandbox. */
  judgement: Record<SettledState, WrittenVerdict> | null
  status: OperationStatus
  outcome: OperationOutcome | null
  error: Failure | null
  checkpoint_id: string | null
  attempt: number
  /** Attempts that said why they failed; the others were cut off, or still run. */
  failures: number
  last_error: Failure | null
  /** A failed attempt may have changed something at the provider. */
  acted: boolean
  /** Why nothing more is tried: from then on it is only found out, and undone, what has come of it. */
  giving_up: GivingUp | null
  fence: number | null
  taken_at: Date | null
  taken_by: string | null
  created_at: Date
  started_at: Date | null
  settled_at: Date | null
}

export type CheckpointRow = {
  id: string
  sandbox_id: string
  kind: CheckpointKind
  status: CheckpointStatus
  provider_ref: string
  name: string | null
  size_bytes: number | null
  created_at: Date
  verified_at: Date | null
  fleet: string | null
  /** When it is looked at again, while it is young. */
  verify_at: Date | null
  /** And by whose sweeper: its backend's. */
  verify_by: string | null
}

export type ExecutionRow = {
  id: string
  fleet: string
  sandbox_id: string
  /** The life of the sandbox that it runs in, from its start on. */
  incarnation: string | null
  /** Null: it follows the agent that the sandbox was made with. */
  command: string[] | null
  options: ExecutionOptions
  /** The operation that was asked for to wake its sandbox. */
  wake_operation_id: string | null
  /** How often its sandbox was woken for it. */
  wakes: number
  status: ExecutionStatus
  reason: ExecutionReason | null
  exit_code: number | null
  message: string | null
  /** The number of whoever follows it. A write that carries an older one changes nothing. */
  fence: number
  taken_by: string | null
  /** Where in the agent's output the bytes that are kept end, in its backend's words. */
  cursor: string | null
  /** Breaks of its stream in a row that brought nothing. */
  breaks: number
  output_bytes: number
  output_bytes_max: number
  truncated: boolean
  created_at: Date
  started_at: Date | null
  last_output_at: Date | null
  ended_at: Date | null
  hard_deadline_at: Date | null
  silence_ms: number | null
  cancel_requested_at: Date | null
  /** Why its agent was asked to stop, and when first. Written before it is. */
  stop_reason: Wish | null
  stop_asked_at: Date | null
  /** When the queue is rung again for it, if nobody is heard to follow it. */
  ring_at: Date | null
}

export type OutputRow = { execution_id: string; from_byte: number; bytes: Uint8Array; at: Date }

export type EventRow = {
  id: number
  sandbox_id: string
  at: Date
  type: MoveName | 'execution_queued' | 'execution_started' | 'execution_ended' | SweepEventName
  from_state: State | null
  to_state: State | null
  operation_id: string | null
  execution_id: string | null
  fence: number | null
  detail: Record<string, unknown>
}

export type IdempotencyKeyRow = {
  fleet: string
  key: string
  operation_id: string | null
  execution_id: string | null
  created_at: Date
}

/** What the sweeper did that is no move of the sandbox: ended an instance or deleted a checkpoint, or saw that one is gone. */
export type SweepEventName = 'instance_swept' | 'checkpoint_swept' | 'checkpoint_lost'

const SWEEP_PHASES = ['instances', 'checkpoints', 'running', 'suspended', 'done'] as const
export type SweepPhase = (typeof SWEEP_PHASES)[number]

export type SweepRow = {
  fleet: string
  backend: string
  /** Where the backend's lists come from: an account, a cluster, a machine. */
  place: string
  round: number
  phase: SweepPhase
  /** Where the phase goes on: the provider's own word for a page, or the id of a sandbox. */
  cursor: string | null
  began_at: Date | null
  /** When a round was last read to its end, and believed. */
  ended_at: Date | null
  /** How many the lists of this round have shown so far. */
  instances: number
  checkpoints: number
  /** Instances whose sandbox this database has never heard of. */
  strangers: number
  /** Sandboxes that a worker or a list has known, and that should be there; and those of them that are not. */
  expected: number
  missing: number
  taken_by: string | null
  taken_until: Date | null
  failing_since: Date | null
  failure: string | null
  stopped_at: Date | null
  stopped_because: string | null
  /** Somebody has said that until then it may be believed, however much has vanished. */
  believed_until: Date | null
  /** When a tick last came to its end here. */
  ticked_at: Date | null
}

/** What a provider's list has shown, and in which round it did so last. */
export type SightingRow = {
  fleet: string
  backend: string
  place: string
  kind: 'instance' | 'checkpoint'
  ref: string
  sandbox_id: string
  round: number
}

export type FindingRow = {
  fleet: string
  backend: string
  kind: FindingKind
  ref: string
  place: string
  sandbox_id: string
  /** What kind of checkpoint it is, if it is one that nobody owns. */
  checkpoint: CheckpointRow['kind'] | null
  looks: Look[]
  first_seen_at: Date
  /** When it is looked at again. Null once something was done about it. */
  look_at: Date | null
  /** Something is being done about it, or was when a worker died. */
  acting_at: Date | null
  acted_at: Date | null
  operation_id: string | null
}

type PruningRow = { fleet: string; what: 'events' | 'output'; at: Date; id: string }

/** What a sandbox can be found by: its backend, or a plain value of its metadata. */
type TagRow = { fleet: string; key: string; value: string; sandbox_id: string }

/** A number that was counted: all of it so far, or, `at` a time, that of five minutes. */
export type TallyRow = { fleet: string; at: Date; name: string; labels: Record<string, string>; value: number }

/** How far the look at everything has come: the last sandbox that was looked at. */
type CheckRow = { fleet: string; reached: string }

/** Something that must always be true, and is not, with what was seen of it last. */
type ViolationRow = { fleet: string; sandbox_id: string; invariant: string; seen: string; since: Date }

/** The tables of the schema `sandman`. `docs/schema.txt` is their picture, printed from a migrated database. */
export type Database = {
  canaries: CanariesTable
  sandboxes: ReadOnly<SandboxRow>
  operations: ReadOnly<OperationRow>
  checkpoints: ReadOnly<CheckpointRow>
  executions: ReadOnly<ExecutionRow>
  output: ReadOnly<OutputRow>
  events: ReadOnly<EventRow>
  idempotency_keys: ReadOnly<IdempotencyKeyRow>
  sweeps: ReadOnly<SweepRow>
  sightings: ReadOnly<SightingRow>
  findings: ReadOnly<FindingRow>
  prunings: ReadOnly<PruningRow>
  tags: ReadOnly<TagRow>
  tallies: ReadOnly<TallyRow>
  checks: ReadOnly<CheckRow>
  violations: ReadOnly<ViolationRow>
}

export const SCHEMA = 'sandman'
