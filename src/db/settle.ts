import type { Clock } from '../clock.ts'
import type { ExecutionEnd } from '../sandbox/executions.ts'
import { type Failure, type FailureType, storable, storableJson } from '../sandbox/failures.ts'
import type { Kind } from '../sandbox/judge.ts'
import { type GoneReason, movesInto, SETTLED_STATES, type SettledState, type State } from '../sandbox/states.ts'
import { UNHEARD_MS } from './bell-times.ts'
import { VERIFY_AGAIN_MS } from './checkpoints.ts'
import { fromJson } from './json-row.ts'
import { dbMoment, interval } from './now.ts'
import type { Db } from './pool.ts'
import { type CheckpointRow, ID_PREFIXES, type OperationOutcome, type OperationRow, type SandboxRow } from './schema.ts'
import { statement } from './statement.ts'
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
export type Answer = {
  operationId: string
  kind: Kind
  outcome: 'already_done' | 'refused'
  errorType: FailureType | null
}

/** A newer attempt, or the end, has overtaken this one: nothing was changed. */
export type Stale = { settled: false }

/**
 * Ends an operation: its outcome, the sandbox's state, the checkpoint, the event, and whoever is next in line, in one
 * statement and so in one transaction. The sandbox rests in `rest` only in history if somebody waits with work for it.
 *
 * The statement may wait for the sandbox's lock while a request joins the line, or an execution is asked for, and would then
 * not see that. It notices by the counts in the sandbox's row, changes nothing, and is run again.
 */
export async function settle(
  db: Db,
  { attempt, ending, clock }: { attempt: Attempt; ending: Ending; clock: Clock },
): Promise<Settled | Stale> {
  for (let tries = 0; tries <= TRIES_MAX; tries++) {
    const result = await settleOnce(db, attempt, ending, clock)
    if (result.was === null) return { settled: false }
    if (result.move === null) throw new Error(`no move leads from ${result.was} to ${ending.rest.state}`)
    if (result.sandbox === null || result.operation === null) continue
    return {
      settled: true,
      operation: fromJson<OperationRow>(result.operation),
      sandbox: fromJson<SandboxRow>(result.sandbox),
      next: result.next ?? undefined,
      from: result.was,
      answered: result.answers.map(({ operationId }) => operationId),
      answers: result.answers,
      queued: result.queued,
      ended: result.ended,
      endedAs: executionsAfter(ending),
    }
  }
  throw new Error(
    `${attempt.operationId} was not settled: its line and its executions are not as many as its sandbox says, and that did not change in ${TRIES_MAX} looks`,
  )
}

/** A line that grows on every try is longer than any line can be. */
const TRIES_MAX = 20

type Result = {
  was: State | null
  move: string | null
  operation: Record<string, unknown> | null
  sandbox: Record<string, unknown> | null
  next: { operationId: string; kind: Kind } | null
  answers: Answer[]
  queued: string[]
  ended: string[]
}

/** What becomes of executions that run in a sandbox which does not, or not as the incarnation that they began in. */
function executionsAfter({ rest, ...ending }: Ending): ExecutionEnd {
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

const MOVES_INTO = Object.fromEntries(SETTLED_STATES.map((to) => [to, JSON.stringify(movesInto(to))])) as Record<
  SettledState,
  string
>

async function settleOnce(db: Db, attempt: Attempt, ending: Ending, clock: Clock): Promise<Result> {
  const { rest } = ending
  const running = rest.state === 'running' ? rest : undefined
  const providerRef = rest.state === 'gone' ? null : (rest.providerRef ?? null)
  const seen = rest.state === 'suspended' ? rest.checkpoint : running?.snapshot
  const outcome = ending.status === 'succeeded' ? ending.outcome : null
  const error = ending.status === 'succeeded' ? null : JSON.stringify(ending.error)
  const reason = rest.state === 'gone' ? rest.reason : null
  const end = executionsAfter(ending)
  const detail = { status: ending.status, outcome, reason, evidence: ending.evidence }
  // What was seen may contain whatever a sandbox or a provider has said.
  const toldDetail = storableJson(detail)

  const { rows } = await statement<Result>`
    /* settle */ with sandbox as (
      select *, ${MOVES_INTO[rest.state]}::jsonb ->> state as move from sandman.sandboxes
      where operation_id = ${attempt.operationId} and fence = ${attempt.fence} and fleet = ${attempt.fleet}
      for update
    ), line as (
      select operations.id, operations.kind, place, case when sandbox.open_executions > 0
        then coalesce(operations.judgement -> ${rest.state}::text -> 'if_busy', operations.judgement -> ${rest.state}::text)
        else operations.judgement -> ${rest.state}::text end as verdict
      from sandbox join sandman.operations on operations.sandbox_id = sandbox.id and operations.status = 'waiting'
    ), current as (
      select *, ${dbMoment(clock)} as now from sandbox where move is not null and waiting = (select count(*) from line)
        and open_executions = (select count(*) from sandman.executions where executions.sandbox_id = sandbox.id and executions.ring_at is not null)
    ), next as (
      select line.* from line, current where verdict ->> 'answer' = 'work' order by place limit 1
    ), answered as (
      select line.* from line, current where not exists (select from next where next.place <= line.place)
    ), checkpoint as (
      insert into sandman.checkpoints
        (id, fleet, sandbox_id, kind, status, provider_ref, name, size_bytes, created_at, verified_at, verify_at)
      select sandman.make_id(${ID_PREFIXES.checkpoint}, now), fleet, id, ${seen?.kind ?? null}, 'ready',
        ${seen?.providerRef ?? null}, ${seen?.name ?? null}, ${seen?.sizeBytes ?? null}::bigint, now, now,
        now + ${interval(VERIFY_AGAIN_MS[0])}
      from current where ${seen !== undefined}
      returning *
    ), retired as (
      update sandman.checkpoints set status = ${ending.checkpoints?.are ?? null}
      from current
      where checkpoints.sandbox_id = current.id and checkpoints.status <> 'deleted'
        and (checkpoints.id = current.checkpoint_id or ${ending.checkpoints?.which === 'all'})
        and ${ending.checkpoints !== undefined}
    ), kept as (
      select case ${rest.state}::text when 'suspended' then coalesce(checkpoint.id, current.checkpoint_id) end as checkpoint_id
      from current left join checkpoint on true
    ), results as (
      select operation_id as id, ${ending.status}::text as status, ${outcome}::text as outcome, ${error}::jsonb as error,
        case when ${outcome !== null} then coalesce((select id from checkpoint), kept.checkpoint_id) end as checkpoint_id
      from current, kept
      union all
      select id, case verdict ->> 'answer' when 'already_done' then 'succeeded' else 'refused' end,
        case verdict ->> 'answer' when 'already_done' then 'already_done' end, verdict -> 'error',
        case verdict ->> 'answer' when 'already_done' then kept.checkpoint_id end
      from answered, kept
    ), ended as (
      update sandman.operations set
        status        = results.status,
        outcome       = results.outcome,
        error         = results.error,
        checkpoint_id = results.checkpoint_id,
        settled_at    = current.now
      from results, current where operations.id = results.id
      returning operations.*
    ), operation as (
      select * from ended where id = ${attempt.operationId}
    ), cut_off as (
      -- In order, as everybody does who writes several of them, so that no two wait for each other.
      select executions.id from current join sandman.executions on executions.sandbox_id = current.id
      where current.open_executions > 0 and executions.ring_at is not null and case executions.status
        -- Who ends a sandbox on purpose has ended what was asked of it before: that does not bring it back.
        when 'queued' then ${rest.state === 'gone' && WISHED.includes(rest.reason)} and executions.created_at <=
          (select operations.created_at from sandman.operations where operations.id = ${attempt.operationId})
        else ${rest.state !== 'running'} or executions.incarnation is distinct from coalesce(${running?.incarnation ?? null}, executions.incarnation) end
      order by executions.id for update of executions
    ), interrupted as (
      update sandman.executions set status = ${end.status}, reason = ${end.reason}, message = ${storable(end.message ?? '')},
        ended_at = current.now, ring_at = null
      from current, cut_off where executions.id = cut_off.id and executions.ring_at is not null
      returning executions.*
    ), promoted as (
      -- From the operation, so that this comes after its end: two are never active, not even inside of a statement.
      update sandman.operations set status = 'active', started_at = operation.settled_at
      from next, operation where operations.id = next.id
    ), moved as (
      update sandman.sandboxes set
        state            = coalesce(next.verdict ->> 'state', ${rest.state}),
        state_changed_at = now,
        gone_reason      = case when next.id is null then ${reason} end,
        gone_at          = case when next.id is null and ${reason !== null} then now end,
        checkpoint_id    = kept.checkpoint_id,
        provider_ref     = case when next.verdict ->> 'state' = 'provisioning' then null
                                else coalesce(${providerRef}, sandboxes.provider_ref) end,
        incarnation      = case when next.verdict ->> 'state' = 'provisioning' then null
                                else coalesce(${running?.incarnation ?? null}, sandboxes.incarnation) end,
        agent_thread_id  = case when next.verdict ->> 'state' = 'provisioning' or ${outcome === 'respawned'} then null
                                else sandboxes.agent_thread_id end,
        preview_url      = case when ${running !== undefined}
                                then coalesce(${running?.previewUrl ?? null}, sandboxes.preview_url) end,
        expires_at       = case when ${running !== undefined}
                                then coalesce(${running?.expiresAt ?? null}::timestamptz, sandboxes.expires_at) end,
        -- Waking is activity, and so is what ran until now. What merely failed to end it is not, or a sandbox that cannot be paused would never be idle.
        last_active_at   = case when ${outcome !== null} and sandboxes.state in ('provisioning', 'resuming')
                                  or exists (select from interrupted) then now
                                else sandboxes.last_active_at end,
        reap_after       = case when ${outcome !== null} then null else sandboxes.reap_after end,
        open_executions  = sandboxes.open_executions - (select count(*) from interrupted),
        operation_id     = next.id,
        waiting          = sandboxes.waiting - (select count(*) from answered) - case when next.id is null then 0 else 1 end,
        tail_id          = case when next.id is null then null else sandboxes.tail_id end,
        tail_fingerprint = case when next.id is null then null else sandboxes.tail_fingerprint end,
        ring_at          = case when next.id is null then null else now + ${interval(UNHEARD_MS)} end
      from current join kept on true left join next on true
      where sandboxes.id = current.id
      returning sandboxes.*
    ), told as (
      insert into sandman.events (sandbox_id, at, type, from_state, to_state, operation_id, execution_id, fence, detail)
      select sandbox_id, now, type, from_state, to_state, operation_id, execution_id, fence, detail
      from (
        select 0 as nth, ended_at as now, sandbox_id, 'execution_ended' as type, null::text as from_state, null::text as to_state,
          ${attempt.operationId}::text as operation_id, id as execution_id, null::int as fence,
          jsonb_build_object('status', status, 'reason', reason, 'message', message) as detail
        from interrupted
        union all
        select 1, now, id, move, state, ${rest.state}::text, operation_id, null, ${attempt.fence}::int,
          jsonb_strip_nulls(${toldDetail}::jsonb || jsonb_build_object(
            'error', ${error}::jsonb, 'checkpoint_id', coalesce((select id from checkpoint), kept.checkpoint_id)))
        from current, kept
        union all
        select 2, now, current.id, next.verdict ->> 'move', ${rest.state}::text, next.verdict ->> 'state', next.id, null, fence, '{}'
        from current, next
      ) as story
      order by nth
    )
    select (select state from sandbox) as was, (select move from sandbox) as move,
      (select to_jsonb(operation) from operation) as operation,
      (select to_jsonb(moved) from moved) as sandbox,
      (select jsonb_build_object('operationId', id, 'kind', kind) from next) as next,
      (select coalesce(jsonb_agg(jsonb_build_object('operationId', id, 'kind', kind, 'errorType', verdict -> 'error' -> 'error_type', 'outcome',
        case verdict ->> 'answer' when 'already_done' then 'already_done' else 'refused' end) order by place), '[]') from answered) as answers,
      array(select id from interrupted) as ended,
      array(select executions.id from current join sandman.executions on executions.sandbox_id = current.id
        where current.open_executions > 0 and executions.ring_at is not null and executions.status = 'queued'
          and executions.id not in (select id from interrupted)) as queued`.execute(db)
  return rows[0] as Result
}
