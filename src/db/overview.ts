import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { FindingKind } from '../sandbox/findings.ts'
import type { Kind } from '../sandbox/judge.ts'
import { STATES, type State } from '../sandbox/states.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import { backendsOf } from './sandboxes.ts'

type Asked = { fleet: string; clock: Clock }

const LIVE = STATES.filter((state) => state !== 'gone')

type StateCount = { state: State; backend: string; count: number; oldestSince: Date }

/** Every sandbox that is not gone: read from one index, which has all of it. */
export async function countSandboxes(db: Db, fleet: string): Promise<StateCount[]> {
  const { rows } = await sql<StateCount>`
    /* count_sandboxes */ select state, backend, count(*) as count, min(state_changed_at) as "oldestSince"
    from sandman.sandboxes where fleet = ${fleet} and state = any(${LIVE}::text[])
    group by state, backend order by state, backend`.execute(db)
  return rows
}

/** Rows that are looked at before those that do not count are left out. */
const LOOKED_AT = 1_000

export type StuckRow = {
  sandboxId: string
  backend: string
  state: State
  operationId: string
  kind: Kind
  since: Date
  attempt: number
  lastError: Failure | null
}

/**
 * Operations that have been at work for so long, the longest first, and how many there are, as far as they are counted. A pause that
 * waits for executions to end may wait.
 */
export async function findStuck(
  db: Db,
  { fleet, clock, olderThanMs, max }: Asked & { olderThanMs: number; max: number },
): Promise<{ count: number; longest: StuckRow[] }> {
  const { rows } = await sql<StuckRow & { all: number }>`
    /* find_stuck */ with recursive ${backendsOf(fleet)}, slow as materialized (
      select at_work.* from found, lateral (
        select sandboxes.id as "sandboxId", backend, state, operations.id as "operationId", kind, state_changed_at as since, attempt,
          last_error as "lastError"
        from sandman.sandboxes join sandman.operations on operations.id = sandboxes.operation_id
        where fleet = ${fleet} and sandboxes.backend = found.backend and ring_at is not null
          and state_changed_at <= ${dbNow(clock)} - ${interval(olderThanMs)}
          and not (open_executions > 0 and coalesce(operations.options ->> 'if_busy' = 'wait', false))
        order by state_changed_at limit ${LOOKED_AT}) as at_work
    )
    select slow.*, count(*) over () as "all" from slow order by since limit ${max}`.execute(db)
  return { count: rows[0]?.all ?? 0, longest: rows.map(({ all, ...row }) => row) }
}

export type FailingRow = {
  operationId: string
  sandboxId: string
  backend: string
  kind: Kind
  error: Failure
  at: Date
}

/** The latest operations that have failed, of the latest of all fleets in this database. */
export async function findFailing(
  db: Db,
  { fleet, clock, withinMs, max }: Asked & { withinMs: number; max: number },
): Promise<FailingRow[]> {
  const { rows } = await sql<FailingRow>`
    /* find_failing */ with failed as materialized (
      select id, sandbox_id, kind, error, settled_at from sandman.operations
      where status = 'failed' and settled_at > ${dbNow(clock)} - ${interval(withinMs)}
      order by settled_at desc limit ${LOOKED_AT}
    )
    select failed.id as "operationId", sandbox_id as "sandboxId", backend, kind, error, settled_at as at
    from failed join sandman.sandboxes on sandboxes.id = failed.sandbox_id
    where fleet = ${fleet}
    order by settled_at desc limit ${max}`.execute(db)
  return rows
}

type FindingCount = { kind: FindingKind; open: number; endedLastDay: number }

export async function countFindings(db: Db, { fleet, clock }: Asked): Promise<FindingCount[]> {
  const { rows } = await sql<FindingCount>`
    /* count_findings */ select kind, sum(open)::bigint as open, sum(ended)::bigint as "endedLastDay" from (
      select kind, count(*) as open, 0 as ended from sandman.findings where fleet = ${fleet} and look_at is not null group by kind
      union all
      select kind, 0, count(*) from sandman.findings
      where fleet = ${fleet} and acted_at > ${dbNow(clock)} - interval '1 day' group by kind
    ) as counted group by kind order by kind`.execute(db)
  return rows
}

export type MissingRow = {
  sandboxId: string
  backend: string
  state: State
  why: 'instance_missing' | 'checkpoint_missing'
  place: string
  saw: string
  since: Date
  looks: number
  lookAt: Date
}

/**
 * Sandboxes that the sweeper suspects to have lost what they are, the longest suspected first. One whose snapshot is missing loses
 * nothing by it, and is not among them.
 */
export async function findMissing(db: Db, { fleet, max }: { fleet: string; max: number }): Promise<MissingRow[]> {
  const oldest = (kind: MissingRow['why']) => sql`(
      select * from sandman.findings where fleet = ${fleet} and kind = ${kind} and look_at is not null
      order by first_seen_at limit ${LOOKED_AT})`
  const { rows } = await sql<MissingRow>`
    /* find_missing */ with suspected as materialized (${oldest('instance_missing')} union all ${oldest('checkpoint_missing')})
    select sandboxes.id as "sandboxId", sandboxes.backend, sandboxes.state, suspected.kind as why, suspected.place,
      looks -> -1 ->> 'saw' as saw, first_seen_at as since, jsonb_array_length(looks) as looks, look_at as "lookAt"
    from suspected join sandman.sandboxes on sandboxes.id = suspected.sandbox_id and sandboxes.fleet = suspected.fleet
      left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where sandboxes.state in ('running', 'suspended') and suspected.ref = case suspected.kind
      when 'instance_missing' then sandboxes.provider_ref else checkpoints.provider_ref end
    order by first_seen_at limit ${max}`.execute(db)
  return rows
}

export type ExpiringRow = { sandboxId: string; backend: string; state: State; expiresAt: Date }

/**
 * Sandboxes whose provider will end or pause them before long, the soonest first, although no limit of theirs says so: by now their
 * time should have been renewed.
 */
export async function findExpiring(
  db: Db,
  { fleet, clock, withinMs, max, hardMs }: Asked & { withinMs: number; max: number; hardMs: number | undefined },
): Promise<ExpiringRow[]> {
  const { rows } = await sql<ExpiringRow>`
    /* find_expiring */ with recursive ${backendsOf(fleet)}, soon as materialized (
      select ending.* from found, lateral (
        select id, backend, state, expires_at, hard_at, created_at, hard_ttl_ms from sandman.sandboxes
        where fleet = ${fleet} and sandboxes.backend = found.backend and state = 'running'
          and expires_at <= ${dbNow(clock)} + ${interval(withinMs)}
        order by expires_at limit ${LOOKED_AT}) as ending
    )
    select id as "sandboxId", backend, state, expires_at as "expiresAt" from soon
    -- What is to end by then anyway is not lost.
    where coalesce(coalesce(hard_at, created_at + ${interval(hardMs ?? null)}) > expires_at + interval '1 minute', true)
    order by expires_at limit ${max}`.execute(db)
  return rows
}
