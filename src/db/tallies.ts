import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import { type Pruned, upTo } from './prune.ts'
import type { TallyRow } from './schema.ts'

/** How long one part of a trend is, and how long trends are kept. */
export const TREND_MS = 300_000
export const TREND_KEEP_MS = 7 * 86_400_000

/** What was counted since the last time. `trend`: it is also kept for the five minutes that it was counted in. */
export type Counted = Pick<TallyRow, 'name' | 'labels' | 'value'> & { trend: boolean }

/** Adds what was counted to what was, in one statement. In order, so that two who add the same never wait for each other. */
export async function addTallies(
  db: Db,
  { fleet, counted, clock }: { fleet: string; counted: readonly Counted[]; clock: Clock },
): Promise<void> {
  if (counted.length === 0) return
  await sql`
    /* add_tallies */ with given as (
      select * from jsonb_to_recordset(${JSON.stringify(counted)}::jsonb)
        as given (name text, labels jsonb, value double precision, trend boolean)
    )
    insert into sandman.tallies (fleet, at, name, labels, value)
    select ${fleet}, at, name, labels, value from (
      select '-infinity'::timestamptz as at, name, labels, value from given
      union all
      select date_bin(${interval(TREND_MS)}, ${dbNow(clock)}, 'epoch'), name, labels, value from given where trend
    ) as parts
    order by at, name, labels
    on conflict (fleet, at, name, labels) do update set value = tallies.value + excluded.value`.execute(db)
}

/** All that was ever counted. */
export async function readTallies(db: Db, fleet: string): Promise<Omit<Counted, 'trend'>[]> {
  const { rows } = await sql<Omit<Counted, 'trend'>>`
    /* read_tallies */ select name, labels, value from sandman.tallies
    where fleet = ${fleet} and at = '-infinity' order by name, labels`.execute(db)
  return rows
}

export type TrendPart = Omit<Counted, 'trend'> & { at: Date }

/** What was counted lately, of all backends together, in parts of `everyMs`. */
export async function readTrends(
  db: Db,
  { fleet, withinMs, everyMs, clock }: { fleet: string; withinMs: number; everyMs: number; clock: Clock },
): Promise<TrendPart[]> {
  const { rows } = await sql<TrendPart>`
    /* read_trends */ select date_bin(${interval(everyMs)}, at, 'epoch') as at, name, labels - 'backend' as labels, sum(value) as value
    from sandman.tallies where fleet = ${fleet} and at > ${dbNow(clock)} - ${interval(withinMs)}
    group by 1, 2, 3`.execute(db)
  return rows
}

/** Forgets trends that are older than anybody looks back. */
export async function pruneTallies(
  db: Db,
  { fleet, olderThanMs, max, clock }: { fleet: string; olderThanMs: number; max: number; clock: Clock },
): Promise<Pruned> {
  const { numAffectedRows } = await sql`
    delete from sandman.tallies where (fleet, at, name, labels) in (
      select fleet, at, name, labels from sandman.tallies
      where fleet = ${fleet} and at > '-infinity' and at < ${dbNow(clock)} - ${interval(olderThanMs)}
      order by at limit ${max})`.execute(db)
  return upTo(max, numAffectedRows)
}
