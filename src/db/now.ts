import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'

/** Now, as SQL: the database's clock, unless a test has stopped time. */
export function dbNow(clock: Clock): RawBuilder<Date> {
  const stoppedAt = clock.stoppedAt()
  return stoppedAt ? sql<Date>`${stoppedAt.toISOString()}::timestamptz` : sql<Date>`now()`
}
