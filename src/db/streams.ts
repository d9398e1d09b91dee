import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { Wish } from '../sandbox/stream-end.ts'
import { UNHEARD_MS, UNSETTLED_MS } from './bell-times.ts'
import { type FoundExecution, findExecutions } from './executions.ts'
import { fromJson, type Json } from './json-row.ts'
import { dbNow, interval } from './now.ts'
import { findOperations } from './operations.ts'
import type { Db } from './pool.ts'
import type { ExecutionRow, OperationRow, OutputRow, SandboxRow } from './schema.ts'

export type TakenExecution = Omit<FoundExecution, 'checkpoint'> & {
  /** The operation that was asked for to wake its sandbox, as it is now. */
  wake: OperationRow | undefined
  /** The operation that is at work on its sandbox. */
  atWork: OperationRow | undefined
  isPastDeadline: boolean
}

type NotTakenExecution = 'unknown' | 'ended' | { notMineSince: Date }

/** Begins to follow an execution: from now on only its fence may write. */
export async function takeExecution(
  db: Db,
  asked: { fleet: string; executionId: string; worker: string; backends: string[]; clock: Clock },
): Promise<TakenExecution | NotTakenExecution> {
  const { fleet, executionId, worker, backends, clock } = asked
  const now = dbNow(clock)
  const { rows } = await sql<{ execution: Json; sandbox: Json; at_work: Json | null; isPastDeadline: boolean }>`
    /* take_execution */ with execution as (
      update sandman.executions set fence = executions.fence + 1, taken_by = ${worker}, ring_at = least(${now} + ${interval(UNSETTLED_MS)},
        -- Nobody calls the roll of one that has not begun.
        case executions.status when 'queued' then hard_deadline_at end)
      from sandman.sandboxes
      where executions.id = ${executionId} and executions.fleet = ${fleet} and executions.ring_at is not null
        and sandboxes.id = executions.sandbox_id and backend = any (${backends}::text[])
      returning executions.*
    )
    select to_jsonb(execution) as execution, to_jsonb(sandboxes) as sandbox, to_jsonb(operations) as at_work,
      coalesce(hard_deadline_at <= ${now}, false) as "isPastDeadline"
    from execution
    join sandman.sandboxes on sandboxes.id = execution.sandbox_id
    left join sandman.operations on operations.id = sandboxes.operation_id`.execute(db)
  const [taken] = rows
  if (!taken) {
    const [found] = await findExecutions(db, { fleet, ids: [executionId] })
    if (!found) return 'unknown'
    if (found.execution.ended_at !== null) return 'ended'
    return { notMineSince: found.execution.created_at }
  }
  const execution = fromJson<ExecutionRow>(taken.execution)
  const wakeId = execution.wake_operation_id
  const [waking] = wakeId === null ? [] : await findOperations(db, { fleet, ids: [wakeId] })
  return {
    execution,
    sandbox: fromJson<SandboxRow>(taken.sandbox),
    wake: waking?.operation,
    atWork: taken.at_work ? fromJson<OperationRow>(taken.at_work) : undefined,
    isPastDeadline: taken.isPastDeadline,
  }
}

/** A piece of output on its way into the database. */
export type Append = {
  id: string
  fence: number
  /** How many bytes are kept already. If it is another number there, this piece was written before, or is not ours to write. */
  from: number
  bytes: Uint8Array
  cursor: string
  truncated: boolean
}

/**
 * Keeps pieces of many executions, at most one of each, in one statement: the bytes, their count and the cursor behind them
 * together, so that none is lost and none doubled, wherever it is cut. Returns the ids of those that were kept.
 */
export async function appendOutput(db: Db, pieces: readonly Append[], clock: Clock): Promise<Set<string>> {
  const now = dbNow(clock)
  const starts: number[] = []
  let end = 0
  for (const { bytes } of pieces) {
    starts.push(end)
    end += bytes.length
  }
  const { rows } = await sql<{ execution_id: string }>`
    /* append_output */ with given as (
      select * from unnest(${pieces.map(({ id }) => id)}::text[], ${pieces.map(({ fence }) => fence)}::int[],
        ${pieces.map(({ from }) => from)}::bigint[], ${starts}::int[], ${pieces.map(({ bytes }) => bytes.length)}::int[],
        ${pieces.map(({ cursor }) => cursor)}::text[], ${pieces.map(({ truncated }) => truncated)}::boolean[])
        as given (id, fence, from_byte, start, length, cursor, truncated)
    ), locked as materialized (
      -- In order, so that no two of these wait for each other.
      select executions.id from sandman.executions join given on given.id = executions.id
      order by executions.id for update of executions
    ), execution as (
      update sandman.executions set output_bytes = given.from_byte + given.length, cursor = given.cursor,
        truncated = given.truncated, breaks = 0, last_output_at = ${now}
      from given join locked on locked.id = given.id
      where executions.id = given.id and executions.status = 'running' and executions.fence = given.fence
        and executions.output_bytes = given.from_byte
      returning executions.id, given.from_byte, given.start, given.length
    )
    insert into sandman.output (execution_id, from_byte, bytes, at)
    select id, from_byte, substring(${Buffer.concat(pieces.map(({ bytes }) => bytes))}::bytea from start + 1 for length), ${now}
    from execution
    returning execution_id`.execute(db)
  return new Set(rows.map(({ execution_id }) => execution_id))
}

/** Writes down how often its stream has broken in a row without bringing anything. Deadlines stay where they are. */
export async function recordBreaks(db: Db, { id, fence, breaks }: { id: string; fence: number; breaks: number }) {
  await sql`update sandman.executions set breaks = ${breaks}
    where id = ${id} and fence = ${fence} and status = 'running'`.execute(db)
}

/** Writes down that its agent is asked to stop, and why, once. False when somebody else follows it, or it has ended. */
export async function recordStop(
  db: Db,
  { id, fence, reason, clock }: { id: string; fence: number; reason: Wish; clock: Clock },
): Promise<boolean> {
  const { numAffectedRows } = await sql`update sandman.executions
    set stop_reason = coalesce(stop_reason, ${reason}), stop_asked_at = coalesce(stop_asked_at, ${dbNow(clock)})
    where id = ${id} and fence = ${fence} and status = 'running'`.execute(db)
  return numAffectedRows === 1n
}

/** What whoever follows an execution has to know, besides its output. */
export type RollCallAnswer = {
  id: string
  /** Nobody else has taken it over, and it has not ended. */
  isMine: boolean
  wish: Wish | null
  /** Its hard deadline, or a stop because of silence, is past by more than it may take to stop it. */
  overdue: boolean
  /** An operation that pauses or ends its sandbox is at work. */
  moving: boolean
}

/** Asks for all that one worker follows at once, and says to the bell that they are followed. */
export async function callRoll(
  db: Db,
  followed: readonly { id: string; fence: number }[],
  { overdueMs, clock }: { overdueMs: number; clock: Clock },
): Promise<RollCallAnswer[]> {
  const now = dbNow(clock)
  const { rows } = await sql<RollCallAnswer>`
    /* call_roll */ with mine as (
      select * from unnest(${followed.map(({ id }) => id)}::text[], ${followed.map(({ fence }) => fence)}::int[]) as mine (id, fence)
    ), due as (
      -- Whose row is being written is heard of anyway, and comes next time: nobody waits for anybody here.
      select executions.id from sandman.executions join mine on mine.id = executions.id and mine.fence = executions.fence
      where ring_at < ${now} + ${interval(UNSETTLED_MS / 2)}
      for update of executions skip locked
    ), renewed as (
      update sandman.executions set ring_at = ${now} + ${interval(UNSETTLED_MS)} from due where executions.id = due.id
    )
    select executions.id, executions.ring_at is not null and executions.fence = mine.fence as "isMine",
      case when cancel_requested_at is not null then 'cancel' when hard_deadline_at <= ${now} then 'deadline'
        -- Of what is not read any more, nobody can say whether it is silent.
        when not truncated and coalesce(last_output_at, executions.started_at) + make_interval(secs => silence_ms::float8 / 1000)
          <= ${now} then 'silence' end as wish,
      coalesce(least(hard_deadline_at, case stop_reason when 'silence' then stop_asked_at end) + ${interval(overdueMs)} <= ${now},
        false) as overdue,
      state in ('pausing', 'killing') and case operations.options ->> 'if_busy'
        -- It waits for this execution: for whichever end of it, or for the one that it has asked for.
        when 'wait' then false when 'interrupt' then cancel_requested_at is null else true end as moving
    from mine
    join sandman.executions on executions.id = mine.id
    join sandman.sandboxes on sandboxes.id = executions.sandbox_id
    left join sandman.operations on operations.id = sandboxes.operation_id`.execute(db)
  return rows
}

/** Executions that nobody is heard to follow: rung for by whoever gets them here. If that is not heard, they come up again. */
export async function claimUnfollowed(
  db: Db,
  { fleet, max, clock }: { fleet: string; max: number; clock: Clock },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    /* claim_unfollowed */ with due as (
      select id from sandman.executions
      where fleet = ${fleet} and ring_at <= ${dbNow(clock)}
      order by ring_at limit ${max}
      for update skip locked
    )
    update sandman.executions set ring_at = ${dbNow(clock)} + ${interval(UNHEARD_MS)}
    from due where executions.id = due.id
    returning executions.id`.execute(db)
  return rows.map(({ id }) => id)
}

/** Executions that are past their hard deadline by so much that whoever should have ended them is not there. */
export async function findPastDeadline(
  db: Db,
  asked: { fleet: string; backend: string; byMs: number; max: number; clock: Clock },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    /* find_past_deadline */ select executions.id
    from sandman.executions join sandman.sandboxes on sandboxes.id = executions.sandbox_id
    where executions.fleet = ${asked.fleet} and executions.ring_at is not null and backend = ${asked.backend}
      and hard_deadline_at <= ${dbNow(asked.clock)} - ${interval(asked.byMs)}
    order by hard_deadline_at limit ${asked.max}`.execute(db)
  return rows.map(({ id }) => id)
}

/** What is kept from a byte on, in order, a few pieces at a time. The first may begin before that byte. */
export async function readOutput(
  db: Db,
  { executionId, from, max }: { executionId: string; from: number; max: number },
): Promise<Pick<OutputRow, 'from_byte' | 'bytes'>[]> {
  const { rows } = await sql<Pick<OutputRow, 'from_byte' | 'bytes'>>`
    /* read_output */ select from_byte, bytes from sandman.output
    where execution_id = ${executionId} and from_byte >= coalesce((
      select max(earlier.from_byte) from sandman.output as earlier
      where earlier.execution_id = ${executionId} and earlier.from_byte <= ${from}), 0)
    order by from_byte limit ${max}`.execute(db)
  return rows
}
