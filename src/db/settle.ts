import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import type { Clock } from '../clock.ts'
import type { ExecutionEnd } from '../sandbox/executions.ts'
import type { FailureType } from '../sandbox/failures.ts'
import { ID_PREFIXES } from '../sandbox/ids.ts'
import type { Kind } from '../sandbox/judge.ts'
import { movesInto, SETTLED_STATES, type State } from '../sandbox/states.ts'
import { UNHEARD_MS, VERIFY_AGAIN_MS } from './bell-times.ts'
import { type Ending, executionsAfter, given } from './ending.ts'
import { fromJson } from './json-row.ts'
import { dbMoment, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { OperationRow, SandboxRow } from './schema.ts'
import { statement } from './statement.ts'
import type { Attempt } from './take.ts'

export type Settled = {
  settled: true
  operation: OperationRow
  sandbox: SandboxRow
  /** The state in which the operation was at work. */
  from: State
  /** Whose turn it is now: the caller rings for it. */
  next: { operationId: string; kind: Kind } | undefined
  /** Those that had waited and got their answer without any work. */
  answered: string[]
  /** And which answer each of them got. */
  answers: Answer[]
  /** Executions that wait for the sandbox to come to rest: the caller rings for them. */
  queued: string[]
  /** Executions that ended with what they ran in, and how all of them did. */
  ended: string[]
  endedAs: ExecutionEnd
}

/** What an operation was told that needed no work. */
type Answer = {
  operationId: string
  kind: Kind
  outcome: 'already_done' | 'refused'
  errorType: FailureType | null
}

/** A newer attempt, or the end, has overtaken this one: nothing was changed. */
export type Stale = { settled: false }

/** An attempt, and what it has come to. */
export type Attempted = { attempt: Attempt; ending: Ending }

/**
 * Ends an operation: its outcome, the sandbox's state, the checkpoint, the event, and whoever is next in line, in one
 * statement and so in one transaction. The sandbox rests in `rest` only in history if somebody waits with work for it.
 *
 * The statement may wait for the sandbox's lock while a request joins the line, or an execution is asked for, and would then
 * not see that. It notices by the counts in the sandbox's row, changes nothing, and is run again.
 */
export async function settle(db: Db, { clock, ...attempted }: Attempted & { clock: Clock }): Promise<Settled | Stale> {
  const { attempt, ending } = attempted
  for (let tries = 0; tries <= TRIES_MAX; tries++) {
    const [result] = await settleAny(db, [attempted], clock)
    if (!result) return { settled: false }
    if (result.move === null) throw new Error(`no move leads from ${result.was} to ${ending.rest.state}`)
    const settled = read(result, ending)
    if (settled) return settled
  }
  throw new Error(
    `${attempt.operationId} was not settled: its line and its executions are not as many as its sandbox says, and that did not change in ${TRIES_MAX} looks`,
  )
}

/** A line that grows on every try is longer than any line can be. */
const TRIES_MAX = 20

/**
 * The same for several of one fleet, by one statement that waits for nobody: a sandbox that somebody else has locked is left out, as
 * is whatever cannot be settled. Those are for `settle`, which waits for the lock of each alone, or says why not.
 */
export async function settleFree(db: Db, several: readonly Attempted[], clock: Clock): Promise<Map<string, Settled>> {
  const settled = new Map<string, Settled>()
  try {
    const endings = new Map(several.map(({ attempt, ending }) => [attempt.operationId, ending]))
    for (const result of await settleAny(db, several, clock, sql`skip locked`)) {
      const each = read(result, endings.get(result.id) as Ending)
      if (each) settled.set(result.id, each)
    }
  } catch (error) {
    // Refused by the server, and so undone: for the sake of one of them, perhaps, which each finds out alone.
    if (!(error instanceof pg.DatabaseError && several.length > 1)) throw error
  }
  return settled
}

type Result = {
  id: string
  was: State
  move: string | null
  operation: Record<string, unknown> | null
  sandbox: Record<string, unknown> | null
  next: { operationId: string; kind: Kind } | null
  answers: Answer[] | null
  queued: string[] | null
  ended: string[] | null
}

function read({ operation, sandbox, ...result }: Result, ending: Ending): Settled | undefined {
  if (operation === null || sandbox === null) return undefined
  const answers = result.answers ?? []
  return {
    settled: true,
    operation: fromJson<OperationRow>(operation),
    sandbox: fromJson<SandboxRow>(sandbox),
    next: result.next ?? undefined,
    from: result.was,
    answered: answers.map(({ operationId }) => operationId),
    answers,
    queued: result.queued ?? [],
    ended: result.ended ?? [],
    endedAs: executionsAfter(ending),
  }
}

/** Into each state from every other, by its name. */
const MOVES = JSON.stringify(Object.fromEntries(SETTLED_STATES.map((to) => [to, movesInto(to)])))

const ANYWAY = sql``

/** One row for each that is still its attempt's to settle; without an operation and a sandbox where it was not settled. */
async function settleAny(
  db: Db,
  several: readonly Attempted[],
  clock: Clock,
  waiting: RawBuilder<unknown> = ANYWAY,
): Promise<Result[]> {
  const endings = several.map(({ attempt, ending }) => given(attempt, ending))
  const operationIds = several.map(({ attempt }) => attempt.operationId)
  const { rows } = await statement<Result>`
    /* settle */ with given as (
      select ending.* from unnest(${endings}::jsonb[]) as each, jsonb_to_record(each) as ending (
        of_operation text, of_fence integer, to_state text, to_reason text, to_ref text, to_incarnation text, to_url text,
        to_expiry timestamptz, makes jsonb, retires text, retires_as text, ends_as text, ends_with text, ends_for jsonb,
        cuts_off jsonb, cuts_off_queued boolean, tells text)
    ), sandbox as (
      select sandboxes.*, given.*, ${MOVES}::jsonb -> to_state ->> state as move
      from given join sandman.sandboxes on operation_id = of_operation and fence = of_fence
      -- Said twice, because a plan that was made when nobody was at work would read all that are for it.
      where operation_id = any (${operationIds}::text[]) and fleet = ${several[0]?.attempt.fleet}
      for update of sandboxes ${waiting}
    ), line as (
      select operations.id, operations.sandbox_id, operations.kind, place, case when sandbox.open_executions > 0
        then coalesce(operations.judgement -> to_state -> 'if_busy', operations.judgement -> to_state)
        else operations.judgement -> to_state end as verdict
      from sandbox join sandman.operations on operations.sandbox_id = sandbox.id and operations.status = 'waiting'
      where sandbox.waiting > 0
    ), current as (
      select *, ${dbMoment(clock)} as now from sandbox where move is not null
        and waiting = (select count(*) from line where line.sandbox_id = sandbox.id)
        and (open_executions = 0 or open_executions =
          (select count(*) from sandman.executions where executions.sandbox_id = sandbox.id and executions.ring_at is not null))
    ), next as (
      select distinct on (current.id) line.* from line join current on current.id = line.sandbox_id
      where verdict ->> 'answer' = 'work' order by current.id, place
    ), answered as (
      select line.* from line join current on current.id = line.sandbox_id
      where not exists (select from next where next.sandbox_id = line.sandbox_id and next.place <= line.place)
    ), checkpoint as (
      insert into sandman.checkpoints
        (id, fleet, sandbox_id, kind, status, provider_ref, name, size_bytes, created_at, verified_at, verify_at, verify_by)
      select sandman.make_id(${ID_PREFIXES.checkpoint}, now), fleet, id, makes ->> 'kind', 'ready', makes ->> 'providerRef',
        makes ->> 'name', (makes ->> 'sizeBytes')::bigint, now, now, now + ${interval(VERIFY_AGAIN_MS[0])}, backend
      from current where makes is not null
      returning id, sandbox_id
    ), retired as (
      update sandman.checkpoints set status = retires_as
      from current
      where retires is not null and checkpoints.sandbox_id = current.id and checkpoints.status <> 'deleted'
        and (retires = 'all' or checkpoints.id = current.checkpoint_id)
    ), kept as (
      select current.*, checkpoint.id as made_id,
        case to_state when 'suspended' then coalesce(checkpoint.id, current.checkpoint_id) end as kept_id
      from current left join checkpoint on checkpoint.sandbox_id = current.id
    ), results as (
      select operation_id as id, now, ends_as as status, ends_with as outcome, ends_for as error,
        case when ends_with is not null then coalesce(made_id, kept_id) end as checkpoint_id
      from kept
      union all
      select answered.id, now, case verdict ->> 'answer' when 'already_done' then 'succeeded' else 'refused' end,
        case verdict ->> 'answer' when 'already_done' then 'already_done' end, verdict -> 'error',
        case verdict ->> 'answer' when 'already_done' then kept_id end
      from answered join kept on kept.id = answered.sandbox_id
    ), ended as (
      update sandman.operations set
        status        = results.status,
        outcome       = results.outcome,
        error         = results.error,
        checkpoint_id = results.checkpoint_id,
        settled_at    = results.now
      from results where operations.id = results.id
      returning operations.*
    ), operation as (
      select ended.* from ended join current on current.operation_id = ended.id
    ), cut_off as (
      -- In order, as everybody does who writes several of them, so that no two wait for each other.
      select executions.id, cuts_off, now from current join sandman.executions on executions.sandbox_id = current.id
      where current.open_executions > 0 and executions.ring_at is not null and case executions.status
        when 'queued' then cuts_off_queued and executions.created_at <=
          (select operations.created_at from sandman.operations where operations.id = current.operation_id)
        else to_state <> 'running' or executions.incarnation is distinct from coalesce(to_incarnation, executions.incarnation) end
      order by executions.id for update of executions
    ), interrupted as (
      update sandman.executions set status = cuts_off ->> 'status', reason = cuts_off ->> 'reason', message = cuts_off ->> 'message',
        ended_at = now, ring_at = null
      from cut_off where executions.id = cut_off.id and executions.ring_at is not null
      returning executions.*
    ), promoted as (
      -- From the operation, so that this comes after its end: two are never active, not even inside of a statement.
      update sandman.operations set status = 'active', started_at = operation.settled_at
      from next join operation on operation.sandbox_id = next.sandbox_id where operations.id = next.id
    ), moved as (
      update sandman.sandboxes set
        state            = coalesce(next.verdict ->> 'state', to_state),
        state_changed_at = now,
        gone_reason      = case when next.id is null then to_reason end,
        gone_at          = case when next.id is null and to_reason is not null then now end,
        checkpoint_id    = kept_id,
        provider_ref     = case when next.verdict ->> 'state' = 'provisioning' then null
                                else coalesce(to_ref, sandboxes.provider_ref) end,
        incarnation      = case when next.verdict ->> 'state' = 'provisioning' then null
                                else coalesce(to_incarnation, sandboxes.incarnation) end,
        agent_thread_id  = case when next.verdict ->> 'state' = 'provisioning' or ends_with = 'respawned' then null
                                else sandboxes.agent_thread_id end,
        preview_url      = case to_state when 'running' then coalesce(to_url, sandboxes.preview_url) end,
        expires_at       = case to_state when 'running' then coalesce(to_expiry, sandboxes.expires_at) end,
        -- Waking is activity, and so is what ran until now. What merely failed to end it is not, or a sandbox that cannot be paused would never be idle.
        last_active_at   = case when ends_with is not null and sandboxes.state in ('provisioning', 'resuming')
                                  or exists (select from interrupted where interrupted.sandbox_id = kept.id) then now
                                else sandboxes.last_active_at end,
        reap_after       = case when ends_with is null then sandboxes.reap_after end,
        open_executions  = sandboxes.open_executions - (select count(*) from interrupted where interrupted.sandbox_id = kept.id),
        operation_id     = next.id,
        waiting          = sandboxes.waiting - (select count(*) from answered where answered.sandbox_id = kept.id)
                             - case when next.id is null then 0 else 1 end,
        tail_id          = case when next.id is null then null else sandboxes.tail_id end,
        tail_fingerprint = case when next.id is null then null else sandboxes.tail_fingerprint end,
        ring_at          = case when next.id is null then null else now + ${interval(UNHEARD_MS)} end
      from kept left join next on next.sandbox_id = kept.id
      where sandboxes.id = kept.id
      returning sandboxes.*
    ), told as (
      insert into sandman.events (sandbox_id, at, type, from_state, to_state, operation_id, execution_id, fence, detail)
      select sandbox_id, now, type, from_state, to_state, operation_id, execution_id, fence, detail
      from (
        select 0 as nth, interrupted.ended_at as now, sandbox_id, 'execution_ended' as type, null as from_state, null as to_state,
          kept.operation_id, interrupted.id as execution_id, null::integer as fence,
          jsonb_build_object('status', interrupted.status, 'reason', interrupted.reason, 'message', interrupted.message) as detail
        from interrupted join kept on kept.id = interrupted.sandbox_id
        union all
        select 1, now, id, move, state, to_state, operation_id, null, of_fence,
          jsonb_strip_nulls(tells::jsonb || jsonb_build_object('error', ends_for, 'checkpoint_id', coalesce(made_id, kept_id)))
        from kept
        union all
        select 2, now, kept.id, next.verdict ->> 'move', to_state, next.verdict ->> 'state', next.id, null, fence, '{}'
        from kept join next on next.sandbox_id = kept.id
      ) as story
      order by nth
    )
    select of_operation as id, sandbox.state as was, sandbox.move, to_jsonb(operation) as operation, to_jsonb(moved) as sandbox,
      (select jsonb_build_object('operationId', next.id, 'kind', next.kind) from next where next.sandbox_id = sandbox.id) as next,
      (select jsonb_agg(jsonb_build_object('operationId', answered.id, 'kind', answered.kind, 'errorType', verdict -> 'error' -> 'error_type',
        'outcome', case verdict ->> 'answer' when 'already_done' then 'already_done' else 'refused' end) order by place)
        from answered where answered.sandbox_id = sandbox.id) as answers,
      (select array_agg(interrupted.id order by interrupted.id) from interrupted where interrupted.sandbox_id = sandbox.id) as ended,
      (select array_agg(executions.id order by executions.id) from sandman.executions
        where sandbox.open_executions > 0 and executions.sandbox_id = moved.id and executions.ring_at is not null and executions.status = 'queued'
          and executions.id not in (select interrupted.id from interrupted)) as queued
    from sandbox left join moved on moved.id = sandbox.id
    left join operation on operation.sandbox_id = sandbox.id`.execute(db)
  return rows
}
