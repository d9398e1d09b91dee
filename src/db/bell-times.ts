import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow } from './now.ts'

/** Work that no worker has taken by now was not heard: the queue was away, or forgot. */
export const UNHEARD_MS = 10_000

/** Work that was taken and neither settled nor taken again by now is looked at again. Ringing early costs one look. */
export const UNSETTLED_MS = 60_000

/** The moment this many milliseconds from now, by the same clock as all other times. */
export function dbIn(clock: Clock, ms: number): RawBuilder<Date> {
  return sql<Date>`${dbNow(clock)} + make_interval(secs => ${ms}::float8 / 1000)`
}
