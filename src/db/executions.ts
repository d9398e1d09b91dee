import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { notFound, SandmanError } from '../errors.ts'
import {
  admit,
  EXECUTIONS_MAX,
  type ExecutionEnd,
  type ExecutionOptions,
  type ExecutionStatus,
  explainRefusal,
} from '../sandbox/executions.ts'
import { storable } from '../sandbox/failures.ts'
import { ID_PREFIXES } from '../sandbox/ids.ts'
import type { Kind } from '../sandbox/judge.ts'
import { STATES, type State } from '../sandbox/states.ts'
import { UNHEARD_MS } from './bell-times.ts'
import { findCheckpoint } from './checkpoints.ts'
import { keyOf, reusedKey, runOnce } from './idempotency.ts'
import { fromJson, type JoinedSandbox, type Json, sandboxFromJson } from './json-row.ts'
import { dbMoment, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, ExecutionRow, SandboxRow } from './schema.ts'

export type ExecutionRequest = {
  fleet: string
  sandboxId: string
  /** Left out: it follows the agent that the sandbox was made with. */
  command?: readonly string[] | undefined
  options?: ExecutionOptions
  /** From now on. Nothing moves it later. */
  hardDeadlineMs: number
  silenceMs?: number | undefined
  outputBytesMax: number
  idempotencyKey?: string | undefined
  clock: Clock
}

export type FoundExecution = {
  execution: ExecutionRow
  sandbox: SandboxRow
  /** What the sandbox can be resumed from. */
  checkpoint: CheckpointRow | undefined
}

type Requested = { state: State; execution: Json | null; sandbox: Json; same: boolean }

/**
 * Writes down that an agent is to run in a sandbox, in one statement. What it may meet was judged beforehand; the statement
 * picks by what it finds under the sandbox's lock. Whoever calls this rings the queue afterwards.
 */
export async function requestExecution(db: Db, asked: ExecutionRequest): Promise<FoundExecution> {
  const { fleet, sandboxId, command, options = {}, hardDeadlineMs, silenceMs = null, outputBytesMax, clock } = asked
  const answers = Object.fromEntries(STATES.map((state) => [state, admit(state, options).answer]))
  const given = { command: command ? JSON.stringify(command) : null, options: JSON.stringify(options) }
  const statement = sql<Requested>`
    /* request_execution */ with known as (${keyOf(asked)}), sandbox as (
      select * from sandman.sandboxes
      where id = ${sandboxId} and fleet = ${fleet} and not exists (select from known)
      for update
    ), admitted as (
      select *, ${dbMoment(clock)} as now from sandbox
      where ${JSON.stringify(answers)}::jsonb ->> state <> 'refused' and open_executions < ${EXECUTIONS_MAX}
    ), execution as (
      insert into sandman.executions
        (id, fleet, sandbox_id, command, options, status, created_at, hard_deadline_at, silence_ms, output_bytes_max, ring_at)
      select sandman.make_id(${ID_PREFIXES.execution}, now), fleet, id, ${given.command}::jsonb, ${given.options}::jsonb, 'queued',
        now, now + ${interval(hardDeadlineMs)}, ${silenceMs}::bigint, ${outputBytesMax}::bigint, now + ${interval(UNHEARD_MS)}
      from admitted
      returning *
    ), counted as (
      update sandman.sandboxes set open_executions = sandboxes.open_executions + 1, last_active_at = execution.created_at
      from execution where sandboxes.id = execution.sandbox_id
      returning sandboxes.*
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id)
      select sandbox_id, created_at, 'execution_queued', id from execution
    ), named as (
      insert into sandman.idempotency_keys (fleet, key, execution_id, created_at)
      select fleet, ${asked.idempotencyKey ?? null}::text, id, created_at from execution
      where ${asked.idempotencyKey !== undefined}
    )
    select state, (select to_jsonb(execution) from execution) as execution,
      coalesce((select to_jsonb(counted) from counted), to_jsonb(sandbox)) as sandbox, true as same
    from sandbox
    union all
    select sandboxes.state, to_jsonb(executions), to_jsonb(sandboxes),
      executions.sandbox_id = ${sandboxId} and executions.command is not distinct from ${given.command}::jsonb
        and executions.options = ${given.options}::jsonb
        and (hard_deadline_at - executions.created_at, silence_ms, output_bytes_max) is not distinct from
          (${interval(hardDeadlineMs)}, ${silenceMs}::bigint, ${outputBytesMax}::bigint)
    from known
    join sandman.executions on executions.id = known.execution_id
    join sandman.sandboxes on sandboxes.id = executions.sandbox_id`
  const found = await runOnce(db, statement, asked)
  if (!found) throw notFound('sandbox', sandboxId, fleet)
  if (!found.same) throw reusedKey(asked.idempotencyKey, String(found.execution?.id))
  if (!found.execution) throw refusal(sandboxId, found, options)
  const sandbox = fromJson<SandboxRow>(found.sandbox)
  const { checkpoint_id: id } = sandbox
  const resting = id === null ? undefined : await findCheckpoint(db, { fleet, id })
  return { execution: fromJson<ExecutionRow>(found.execution), sandbox, checkpoint: resting?.checkpoint }
}

function refusal(sandboxId: string, { state }: Requested, options: ExecutionOptions): SandmanError {
  const admission = admit(state, options)
  const because = admission.answer === 'refused' ? admission.because : 'rate_limited'
  return new SandmanError('execution_refused', explainRefusal(because, sandboxId), {
    details: { sandboxId, errorType: because },
  })
}

/** Those of them that there are. */
export async function findExecutions(
  db: Db,
  { fleet, ids }: { fleet: string; ids: string[] },
): Promise<FoundExecution[]> {
  const { rows } = await sql<JoinedSandbox & { execution: Json }>`
    /* find_executions */
    select to_jsonb(executions) as execution, to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.executions
    join sandman.sandboxes on sandboxes.id = executions.sandbox_id
    left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where executions.id = any (${ids}::text[]) and executions.fleet = ${fleet}`.execute(db)
  return rows.map(({ execution, ...joined }) => ({
    execution: fromJson<ExecutionRow>(execution),
    ...sandboxFromJson(joined),
  }))
}

type Listing = {
  fleet: string
  sandboxId?: string | undefined
  status?: ExecutionStatus | undefined
  before?: string | undefined
  max: number
}

/** The newest first, a page at a time. */
export async function listExecutions(
  db: Db,
  { fleet, sandboxId, status, before, max }: Listing,
): Promise<ExecutionRow[]> {
  let query = db.selectFrom('executions').selectAll().where('fleet', '=', fleet)
  if (sandboxId !== undefined) query = query.where('sandbox_id', '=', sandboxId)
  if (status !== undefined) query = query.where('status', '=', status)
  if (before !== undefined) query = query.where('id', '<', before)
  return query.orderBy('id', 'desc').limit(max).execute()
}

/**
 * Undefined when it is not queued any more, or its sandbox is on its way elsewhere: then it is looked at again when that has
 * settled. Written before its agent is started, so that no pause can come in between.
 */
export async function startExecution(
  db: Db,
  { id, fence, incarnation, clock }: { id: string; fence?: number; incarnation: string; clock: Clock },
): Promise<ExecutionRow | undefined> {
  const { rows } = await sql<{ execution: Json }>`
    /* start_execution */ with ${sandboxOf(id, clock)}, execution as (
      update sandman.executions set status = 'running', started_at = sandbox.now, incarnation = ${incarnation}
      from sandbox
      where executions.id = ${id} and status = 'queued' and (sandbox.state = 'running' or exists (
          -- A pause that waits for it.
          select from sandman.operations where operations.id = sandbox.operation_id
            and operations.options ->> 'if_busy' = 'wait' and operations.created_at >= executions.created_at))
        and (${fence ?? null}::int is null or executions.fence = ${fence ?? null})
      returning executions.*
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id, detail)
      select sandbox_id, started_at, 'execution_started', id, jsonb_build_object('incarnation', incarnation) from execution
    )
    select to_jsonb(execution) as execution from execution`.execute(db)
  return rows[0] && fromJson<ExecutionRow>(rows[0].execution)
}

type EndedExecution = {
  execution: ExecutionRow
  backend: string
  /**
   * The operation that is at work on the sandbox, in case it is a pause that waits for this end: rung for as a pause. Anything else
   * is in another queue, and is not taken in this one (`other_kind`).
   */
  awaitedBy: Due | undefined
}

type Due = { operationId: string; kind: Kind }

/**
 * Records the end, with its event, exactly once. Undefined when it has ended before, never was, or somebody else follows it by
 * now. The sandbox is locked first, as everybody does who ends executions.
 */
export async function endExecution(
  db: Db,
  asked: { id: string; end: ExecutionEnd; fence?: number | undefined; only?: ExecutionStatus; clock: Clock },
): Promise<EndedExecution | undefined> {
  const { id, end, fence = null, only = null } = asked
  const { rows } = await sql<{ execution: Json; backend: string; at_work: string | null }>`
    /* end_execution */ with ${sandboxOf(id, asked.clock)}, execution as (
      update sandman.executions set status = ${end.status}, reason = ${end.reason}, exit_code = ${end.exitCode ?? null},
        message = ${end.message === undefined ? null : storable(end.message)}, ended_at = sandbox.now, ring_at = null
      from sandbox
      where executions.id = ${id} and status in ('queued', 'running') and (${only}::text is null or status = ${only})
        and (${fence}::int is null or executions.fence = ${fence})
      returning executions.*
    ), counted as (
      update sandman.sandboxes set open_executions = sandboxes.open_executions - 1,
        last_active_at = greatest(last_active_at, execution.ended_at)
      from execution where sandboxes.id = execution.sandbox_id
      returning backend, case when state in ('pausing', 'killing') then operation_id end as operation_id
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id, detail)
      select sandbox_id, ended_at, 'execution_ended', id,
        jsonb_strip_nulls(jsonb_build_object('status', status, 'reason', reason, 'exit_code', exit_code, 'message', message))
      from execution
    )
    select to_jsonb(execution) as execution, counted.backend, counted.operation_id as at_work from execution, counted`.execute(
    db,
  )
  const [ended] = rows
  if (!ended) return undefined
  const awaitedBy = ended.at_work === null ? undefined : ({ operationId: ended.at_work, kind: 'pause' } as const)
  return { execution: fromJson<ExecutionRow>(ended.execution), backend: ended.backend, awaitedBy }
}

function sandboxOf(executionId: string, clock: Clock): RawBuilder<unknown> {
  return sql`locked as (
      select * from sandman.sandboxes
      where id = (select sandbox_id from sandman.executions where executions.id = ${executionId})
      for update
    ), sandbox as (
      select id, state, operation_id, ${dbMoment(clock)} as now from locked
    )`
}

/** Asks for executions to be cancelled, and says what they are. Whoever follows one that runs stops its agent, and ends it. */
export async function requestCancel(
  db: Db,
  /** One; or those that a pause interrupts: commands that run, and all that was asked for before it and has not begun. */
  which: { fleet: string; id: string } | { interruptedBy: string },
  clock: Clock,
): Promise<ExecutionRow[]> {
  const where =
    'id' in which
      ? sql`executions.id = ${which.id} and fleet = ${which.fleet}`
      : sql`exists (select from sandman.operations where operations.id = ${which.interruptedBy}
          and operations.sandbox_id = executions.sandbox_id and operations.created_at >= executions.created_at)
          and (status = 'queued' or command is not null)`
  const { rows } = await sql<{ execution: Json }>`
    with locked as (
      select executions.id from sandman.executions where ring_at is not null and ${where} order by executions.id for update
    ), execution as (
      update sandman.executions set cancel_requested_at = coalesce(cancel_requested_at, ${dbMoment(clock)})
      from locked where executions.id = locked.id and ring_at is not null
      returning executions.*
    )
    select to_jsonb(execution) as execution from execution`.execute(db)
  return rows.map(({ execution }) => fromJson<ExecutionRow>(execution))
}

/** Writes down which operation wakes its sandbox, so that its failure is known to be this execution's. */
export async function recordWake(db: Db, { id, operationId }: { id: string; operationId: string }): Promise<void> {
  await sql`update sandman.executions set wakes = wakes + 1, wake_operation_id = ${operationId}
    where id = ${id} and status = 'queued'`.execute(db)
}

/** How many executions keep a pause from being done: those that run, and those that were asked for before it. */
export async function countAhead(db: Db, pause: { id: string }): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count
    from sandman.operations join sandman.executions on executions.sandbox_id = operations.sandbox_id
    where operations.id = ${pause.id} and ring_at is not null
      and (executions.status = 'running' or executions.created_at <= operations.created_at)`.execute(db)
  return rows[0]?.count ?? 0
}

/**
 * The operation that is at work on the sandbox, in case it is a pause that waits for executions and has to look again: rung for as a
 * pause. Anything else is in another queue, and is not taken in this one (`other_kind`).
 */
export function pauseThatMayWait({ operation_id, open_executions, state }: SandboxRow): Due | undefined {
  const mayWait = open_executions > 0 && (state === 'pausing' || state === 'killing')
  return mayWait && operation_id !== null ? { operationId: operation_id, kind: 'pause' } : undefined
}

/** How many commands run in a sandbox. */
export async function countCommands(db: Db, sandboxId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(command) as count from sandman.executions
    where sandbox_id = ${sandboxId} and ring_at is not null and status = 'running'`.execute(db)
  return rows[0]?.count ?? 0
}
