import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { notFound } from '../errors.ts'
import type { Cause } from '../sandbox/causes.ts'
import { ID_PREFIXES } from '../sandbox/ids.ts'
import { judgementOf, type Kind, LINE_MAX, type Options, type Verdict } from '../sandbox/judge.ts'
import type { LimitName, Limits } from '../sandbox/limits.ts'
import type { State } from '../sandbox/states.ts'
import { UNHEARD_MS } from './bell-times.ts'
import { findCheckpoint } from './checkpoints.ts'
import { type Keyed, keyOf, reusedKey, runOnce } from './idempotency.ts'
import { fromJson, type JoinedSandbox, type Json, sandboxFromJson } from './json-row.ts'
import { dbMoment, dbNow, interval } from './now.ts'
import { type FoundOperation, findOperations } from './operations.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, OperationRow, SandboxRow, SpecAsKept } from './schema.ts'

/** What became of a request. `repeated`: its idempotency key has been seen before, and this is what it named. */
export type Answer = Verdict['answer'] | 'repeated'

export type Requested = {
  answer: Answer
  operation: OperationRow
  sandbox: SandboxRow
  /** What the sandbox can be resumed from. */
  checkpoint: CheckpointRow | undefined
  /** Where it rested until now, and for how long; when there is work. */
  left?: { state: State; ms: number }
}

export type SandboxRequest = {
  fleet: string
  sandboxId: string
  kind: Kind
  options?: Options
  idempotencyKey?: string | undefined
  /** Why it is asked for, when it is no app that asks. */
  cause?: Cause | undefined
  /** Asked for because it has idled, or slept, since then: if it has not, because it was used meanwhile, nothing is asked for. */
  onlyIf?: { limit: LimitName; since: Date } | undefined
  clock: Clock
}

export type SpawnRequest = {
  fleet: string
  backend: string
  canPause: boolean
  canSnapshot: boolean
  spec?: SpecAsKept
  metadata?: Record<string, unknown>
  /** What is left out is its fleet's. */
  ttl?: Limits
  agentThreadId?: string | undefined
  idempotencyKey?: string | undefined
  clock: Clock
}

/**
 * Asks something of a sandbox: locks it, judges, and writes down what came of it, in one statement and so in one transaction.
 * Whoever calls this rings the queue afterwards when the answer is `work`. Not to be called inside of another transaction:
 * one whose idempotency key turns out to be taken is asked again.
 *
 * The statement decides nothing: it picks from the judgement that was made beforehand, by what it finds under the lock. It
 * may have waited for that lock, and then sees of other tables what was there before it waited; so all that it has to know
 * of the line stands in the sandbox's own row.
 */
export async function request(db: Db, asked: SandboxRequest): Promise<Requested> {
  const { fleet, sandboxId } = asked
  const requested = await requestIf(db, asked)
  if (!requested) throw notFound('sandbox', sandboxId, fleet)
  return requested
}

/** The same; undefined when there is no such sandbox, or it is not any more what it was asked for. */
export async function requestIf(db: Db, asked: SandboxRequest): Promise<Requested | undefined> {
  const { fleet, sandboxId, kind, options = {}, cause, onlyIf, clock } = asked
  const judgement = JSON.stringify(judgementOf({ kind, options }, sandboxId))
  const statement = sql<Found>`
    /* request */ with known as (${keyOf(asked)}), sandbox as (
      select * from sandman.sandboxes
      where id = ${sandboxId} and fleet = ${fleet} and not exists (select from known)
        -- To the millisecond, because whoever asks has read no more of it.
        and case ${onlyIf?.limit ?? null}::text
          when 'idle' then open_executions = 0 and last_active_at < ${onlyIf?.since ?? null}::timestamptz + interval '1 millisecond'
          when 'retention' then open_executions = 0 and state = 'suspended'
            and suspended_at < ${onlyIf?.since ?? null}::timestamptz + interval '1 millisecond'
          else true end
      for update
    ), found as (
      select *, ${dbMoment(clock)} as now, ${judgement}::jsonb as judgement,
        case ${kind}::text when 'pause' then can_pause when 'snapshot' then can_snapshot else true end as able,
        case when tail_fingerprint = md5(${kind}::text || ' ' || ${json(options)}::text) then 'behind_equal'
             when waiting >= ${LINE_MAX} then 'line_full'
             else 'behind_other' end as place
      from sandbox
    ), judged as (
      select *, judgement -> 'resting' -> (case when able then 'able' else 'unable' end) as resting
      from found
    ), answered as (
      select *, verdict ->> 'answer' as answer
      from judged, lateral (select case
        when operation_id is not null then judgement -> 'in_flight' -> state -> place
        when open_executions > 0 then coalesce(resting -> state -> 'if_busy', resting -> state)
        else resting -> state end as verdict) as picked
    ), operation as (
      insert into sandman.operations
        (id, sandbox_id, kind, options, cause, judgement, status, outcome, error, checkpoint_id, created_at, started_at, settled_at)
      select sandman.make_id(${ID_PREFIXES.operation}, now), id, ${kind}, ${json(options)}, ${cause ? JSON.stringify(cause) : null}::jsonb,
        case answer when 'wait' then resting end,
        case answer when 'work' then 'active' when 'wait' then 'waiting' when 'already_done' then 'succeeded' else 'refused' end,
        case answer when 'already_done' then 'already_done' end,
        verdict -> 'error',
        case answer when 'already_done' then checkpoint_id end,
        now, case answer when 'work' then now end, case when answer in ('already_done', 'refused') then now end
      from answered where answer <> 'join'
      returning *
    ), moved as (
      update sandman.sandboxes set
        state            = coalesce(verdict ->> 'state', sandboxes.state),
        state_changed_at = case answer when 'work' then now else sandboxes.state_changed_at end,
        operation_id     = case answer when 'work' then operation.id else sandboxes.operation_id end,
        ring_at          = case answer when 'work' then now + ${interval(UNHEARD_MS)} else sandboxes.ring_at end,
        waiting          = sandboxes.waiting + case answer when 'wait' then 1 else 0 end,
        tail_id          = operation.id,
        tail_fingerprint = operation.fingerprint,
        -- A respawn begins a new life: nothing of the old one is left but its history.
        gone_reason      = null,
        gone_at          = null,
        provider_ref     = case sandboxes.state when 'gone' then null else sandboxes.provider_ref end,
        incarnation      = case sandboxes.state when 'gone' then null else sandboxes.incarnation end,
        agent_thread_id  = case sandboxes.state when 'gone' then null else sandboxes.agent_thread_id end
      from answered, operation
      where sandboxes.id = answered.id and answer in ('work', 'wait')
      returning sandboxes.*
    ), told as (
      insert into sandman.events (sandbox_id, at, type, from_state, to_state, operation_id, fence)
      select answered.id, now, verdict ->> 'move', state, verdict ->> 'state', operation.id, answered.fence
      from answered, operation where answer = 'work'
    ), ${named(asked, sql`select coalesce((select id from operation), tail_id) as id from answered`)}
    select answer, to_jsonb(operation) as operation, tail_id as joined_id,
      coalesce((select to_jsonb(moved) from moved), (select to_jsonb(sandbox) from sandbox)) as sandbox, true as same,
      to_jsonb(checkpoints) as checkpoint, case answer when 'work' then jsonb_build_object('state', answered.state,
        'ms', round(extract(epoch from now - answered.state_changed_at) * 1000)) end as "left"
    from answered left join operation on true left join sandman.checkpoints on checkpoints.id = answered.checkpoint_id
    union all
    ${repeated(sql`operations.sandbox_id = ${sandboxId} and operations.kind = ${kind} and operations.options = ${json(options)}`)}`
  const found = await runOnce(db, statement, asked)
  return found && read(db, found, asked)
}

/** Makes a sandbox and the operation that brings it to life, in one statement. */
export async function requestSpawn(db: Db, asked: SpawnRequest): Promise<Requested> {
  const {
    fleet,
    backend,
    canPause,
    canSnapshot,
    spec = {},
    metadata = {},
    ttl = {},
    agentThreadId = null,
    clock,
  } = asked
  const now = dbNow(clock)
  // The sandbox forgets its thread when it is respawned, and the same request has to be known again also then.
  const options = agentThreadId === null ? spec : { ...spec, agent_thread_id: agentThreadId }
  const statement = sql<Found>`
    /* request_spawn */ with known as (${keyOf(asked)}), ids as materialized (
      select sandman.make_id(${ID_PREFIXES.sandbox}, ${now}) as sandbox_id,
             sandman.make_id(${ID_PREFIXES.operation}, ${now}) as operation_id
      where not exists (select from known)
    ), operation as (
      insert into sandman.operations (id, sandbox_id, kind, options, status, created_at, started_at)
      select operation_id, sandbox_id, 'spawn', ${json(options)}, 'active', ${now}, ${now} from ids
      returning *
    ), sandbox as (
      insert into sandman.sandboxes
        (id, fleet, backend, can_pause, can_snapshot, spec, metadata, agent_thread_id, state, state_changed_at,
         operation_id, tail_id, tail_fingerprint, ring_at, idle_ttl_ms, idle_if_unsupported, hard_ttl_ms,
         retention_ms, created_at, last_active_at)
      select sandbox_id, ${fleet}, ${backend}, ${canPause}, ${canSnapshot}, ${json(spec)}, ${json(metadata)}, ${agentThreadId},
        'provisioning', ${now}, id, id, fingerprint, ${now} + ${interval(UNHEARD_MS)}, ${ttl.idleMs ?? null}::bigint, ${ttl.ifUnsupported ?? null}::text,
        ${ttl.hardMs ?? null}::bigint, ${ttl.retentionMs ?? null}::bigint, ${now}, ${now}
      from operation
      returning *
    ), told as (
      insert into sandman.events (sandbox_id, at, type, to_state, operation_id, fence)
      select id, ${now}, 'spawn_began', state, operation_id, fence from sandbox
    ), ${named(asked, sql`select id from operation`)}
    select 'work' as answer, to_jsonb(operation) as operation, null as joined_id, to_jsonb(sandbox) as sandbox, true as same,
      null::jsonb as checkpoint, null::jsonb as "left"
    from operation, sandbox
    union all
    ${repeated(sql`operations.kind = 'spawn' and operations.options = ${json(options)} and sandboxes.backend = ${backend}
      and sandboxes.metadata = ${json(metadata)}
      and (idle_ttl_ms, idle_if_unsupported, hard_ttl_ms, retention_ms) is not distinct from
        (${ttl.idleMs ?? null}::bigint, ${ttl.ifUnsupported ?? null}::text, ${ttl.hardMs ?? null}::bigint, ${ttl.retentionMs ?? null}::bigint)`)}`
  const found = await runOnce(db, statement, asked)
  return read(db, found as Found, asked)
}

type Found = JoinedSandbox & {
  answer: Answer
  operation: Json | null
  joined_id: string | null
  same: boolean
  left: Requested['left'] | null
}

/** Ties the caller's key to the operation: its own, or the one it joined. */
function named(
  { fleet, idempotencyKey, clock }: Keyed & { clock: Clock },
  operation: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`named as (
      insert into sandman.idempotency_keys (fleet, key, operation_id, created_at)
      select ${fleet}, ${idempotencyKey ?? null}::text, named.id, ${dbNow(clock)} from (${operation}) as named
      where ${idempotencyKey !== undefined}
    )`
}

function repeated(same: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`select 'repeated', to_jsonb(operations), null, to_jsonb(sandboxes), ${same}, to_jsonb(checkpoints), null
    from known
    join sandman.operations on operations.id = known.operation_id
    join sandman.sandboxes on sandboxes.id = operations.sandbox_id
    left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id`
}

async function read(db: Db, found: Found, { fleet, idempotencyKey: key }: Keyed): Promise<Requested> {
  if (!found.same) throw reusedKey(key, String(found.operation?.id))
  // Who waited for the lock would see the operation it joins as that was before: so it is read afterwards, and its sandbox
  // with it, because both may have moved on.
  if (!found.operation) {
    const [joined] = await findOperations(db, { fleet, ids: [found.joined_id as string] })
    return { answer: found.answer, ...(joined as FoundOperation) }
  }
  const operation = fromJson<OperationRow>(found.operation)
  const { sandbox, checkpoint: seen } = sandboxFromJson(found)
  // For the same reason, a checkpoint that was made meanwhile is not seen.
  const { checkpoint_id: id } = sandbox
  const checkpoint = seen ?? (id === null ? undefined : (await findCheckpoint(db, { fleet, id }))?.checkpoint)
  return { answer: found.answer, operation, sandbox, checkpoint, ...(found.left && { left: found.left }) }
}

function json(value: unknown): RawBuilder<unknown> {
  return sql`${JSON.stringify(value)}::jsonb`
}
