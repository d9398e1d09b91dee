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
  retention: sql`state = 'suspended' and open_executions = 0`,
  idle: sql`state = 'running' and open_executions = 0`,
} as const satisfies Record<LimitName, RawBuilder<unknown>>

const OWN = {
  hard: { dueAt: sql.ref('hard_at'), ms: sql.ref('hard_ttl_ms'), since: sql`created_at` },
  retention: { dueAt: sql.ref('retention_at'), ms: sql.ref('retention_ms'), since: sql`suspended_at` },
  idle: { dueAt: sql.ref('idle_at'), ms: sql.ref('idle_ttl_ms'), since: sql`last_active_at` },
} as const

/** Whether the idle limit does anything with it, whatever its fleet says. The indexes of that limit begin with it. */
const ENDS_IDLE = sql`(can_pause or coalesce(idle_if_unsupported = 'kill', false))`

/** By its own limit, or by its fleet's: each is one range of one index. */
function candidatesOf({ fleet, limit, limits, max, clock }: Asked): RawBuilder<unknown> {
  const now = dbNow(clock)
  const { dueAt, ms, since } = OWN[limit]
  const base = sql`fleet = ${fleet} and ${CONDITIONS[limit]} and (reap_after is null or reap_after <= ${now})`
  const fleetMs = { hard: limits.hardMs, retention: limits.retentionMs, idle: limits.idleMs }[limit]
  const does = sql`coalesce(idle_if_unsupported, ${limits.ifUnsupported ?? null})`
  const own = (and: RawBuilder<unknown>) => sql`(
      select id, ${since} as since, ${ms} as limit_ms, 'sandbox' as "of", ${does} as "ifUnsupported"
      from sandman.sandboxes where ${base} ${and} and ${dueAt} is not null and ${dueAt} <= ${now}
      order by ${dueAt} limit ${max})`
  const byFleet = (and: RawBuilder<unknown>) => sql`(
      select id, ${since}, ${fleetMs ?? null}::bigint, 'fleet', ${does}
      from sandman.sandboxes where ${base} ${and} and ${ms} is null and ${since} <= ${now} - ${interval(fleetMs ?? 0)}
      order by ${since} limit ${max})`
  const parts = limit !== 'idle' ? [sql``] : [sql`and ${ENDS_IDLE} = true`]
  if (limit === 'idle' && limits.ifUnsupported === 'kill') parts.push(sql`and ${ENDS_IDLE} = false`)
  return sql.join(
    parts.flatMap((part) => [own(part), ...(fleetMs === undefined ? [] : [byFleet(part)])]),
    sql` union all `,
  )
}
