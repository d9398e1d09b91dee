import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { Db } from './pool.ts'

const NOW = sql<Date>`now()`
const MOMENT = sql<Date>`clock_timestamp()`

/** Now, as SQL: the database's clock, unless a test has stopped time. */
export function dbNow(clock: Clock): RawBuilder<Date> {
  return stopped(clock) ?? NOW
}

/**
 * This very moment, as SQL: later than `dbNow` when the statement has waited for a lock. To be asked for once, after the
 * lock, so that what was written one after the other also has times one after the other.
 */
export function dbMoment(clock: Clock): RawBuilder<Date> {
  return stopped(clock) ?? MOMENT
}

function stopped(clock: Clock): RawBuilder<Date> | undefined {
  const at = clock.stoppedAt()
  return at && sql<Date>`${at.toISOString()}::timestamptz`
}

/** So many milliseconds, as SQL, to be added to a time; null adds up to no time at all. */
export function interval(ms: number | null): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms}::float8 / 1000)`
}

/** What time it is there. */
export async function dbTime(db: Db, clock: Clock): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select ${dbNow(clock)} as now`.execute(db)
  return rows[0]?.now as Date
}
