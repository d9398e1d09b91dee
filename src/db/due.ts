import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { LimitName, Limits } from '../sandbox/limits.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { SandboxRow } from './schema.ts'

/** A sandbox that has reached a limit. */
export type Due = Pick<SandboxRow, 'id' | 'backend' | 'state' | 'can_pause'> & {
  limit: LimitName
  /** What the limit is counted from. */
  since: Date
  limitMs: number
  of: 'sandbox' | 'fleet'
  /** What an idle one is asked for, if its backend cannot pause. */
  ifUnsupported: 'kill' | null
}

type Asked = { fleet: string; limit: LimitName; limits: Limits; max: number; clock: Clock }

/**
 * Gives sandboxes that have reached a limit to one caller, which asks for what has to be done. Whatever comes of that, they
 * come up again after a while at the earliest: a sandbox that cannot be paused is not asked for on every tick.
 */
export async function claimDue(db: Db, { retryMs, ...asked }: Asked & { retryMs: number }): Promise<Due[]> {
  const now = dbNow(asked.clock)
  const { rows } = await sql<Due>`
    with candidate as materialized (${candidatesOf(asked)}), locked as (
      -- Two that tick at once do not wait for each other, and do not get the same.
      select sandboxes.id, since, limit_ms, "of", "ifUnsupported"
      from candidate join sandman.sandboxes on sandboxes.id = candidate.id
      where (reap_after is null or reap_after <= ${now}) and ${CONDITIONS[asked.limit]}
      limit ${asked.max}
      for update of sandboxes skip locked
    )
    update sandman.sandboxes set reap_after = ${now} + ${interval(retryMs)}
    from locked where sandboxes.id = locked.id
    returning sandboxes.id, backend, state, can_pause, ${asked.limit}::text as "limit", since, limit_ms as "limitMs", "of",
      "ifUnsupported"`.execute(db)
  return rows
}

/** Those that would be claimed, and nothing is written. */
export async function findDue(db: Db, asked: Asked): Promise<Due[]> {
  const { rows } = await sql<Due>`
    select sandboxes.id, backend, state, can_pause, ${asked.limit}::text as "limit", since, limit_ms as "limitMs", "of",
      "ifUnsupported"
    from (${candidatesOf(asked)}) as candidate join sandman.sandboxes on sandboxes.id = candidate.id
    order by since limit ${asked.max}`.execute(db)
  return rows
}

/** Which sandboxes a limit is for. Each is the condition of an index of `migrations/0005_housekeeping.ts`. */
const CONDITIONS = {
  hard: sql`state <> 'gone'`,
  retention: sql`state = 'suspended'`,
  idle: sql`state = 'running' and open_executions = 0`,
} as const satisfies Record<LimitName, RawBuilder<unknown>>

const OWN = {
  hard: { dueAt: sql.ref('hard_at'), ms: sql.ref('hard_ttl_ms'), since: sql`created_at` },
  retention: {
    dueAt: sql.ref('retention_at'),
    ms: sql.ref('retention_ms'),
    since: sql`coalesce(suspended_at, state_changed_at)`,
  },
  idle: { dueAt: sql.ref('idle_at'), ms: sql.ref('idle_ttl_ms'), since: sql`last_active_at` },
} as const

/** By its own limit, or by its fleet's: each is one range of one index. */
function candidatesOf({ fleet, limit, limits, max, clock }: Asked): RawBuilder<unknown> {
  const now = dbNow(clock)
  const { dueAt, ms, since } = OWN[limit]
  const base = sql`fleet = ${fleet} and ${CONDITIONS[limit]} and (reap_after is null or reap_after <= ${now})`
  const own = sql`(
      select id, ${since} as since, ${ms} as limit_ms, 'sandbox' as "of", idle_if_unsupported as "ifUnsupported"
      from sandman.sandboxes where ${base} and ${dueAt} is not null and ${dueAt} <= ${now}
        ${limit === 'idle' ? sql`and (can_pause or idle_if_unsupported = 'kill')` : sql``}
      order by ${dueAt} limit ${max})`
  const fleetMs = { hard: limits.hardMs, retention: limits.retentionMs, idle: limits.idleMs }[limit]
  if (fleetMs === undefined) return own
  const byFleet = (and: RawBuilder<unknown>) => sql`(
      select id, ${since}, ${fleetMs}::bigint, 'fleet', ${limits.ifUnsupported ?? null}::text
      from sandman.sandboxes where ${base} and ${ms} is null ${and} and ${since} <= ${now} - ${interval(fleetMs)}
      order by ${since} limit ${max})`
  if (limit !== 'idle') return sql`${own} union all ${byFleet(sql``)}`
  const pausable = byFleet(sql`and can_pause = true`)
  if (limits.ifUnsupported !== 'kill') return sql`${own} union all ${pausable}`
  return sql`${own} union all ${pausable} union all ${byFleet(sql`and can_pause = false`)}`
}
