import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { EventRow } from './schema.ts'

/** A sandbox's history, in the order in which it happened, a page at a time. */
export async function listEvents(
  db: Db,
  sandboxId: string,
  { after = 0, max = 1_000 }: { after?: number; max?: number } = {},
): Promise<EventRow[]> {
  return db
    .selectFrom('events')
    .selectAll()
    .where('sandbox_id', '=', sandboxId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(max)
    .execute()
}

/**
 * Forgets events that are older than this, at most `max` of them, and says how many. The last state change of a sandbox is
 * kept for ever: what is true now can always be explained.
 */
export async function pruneEvents(
  db: Db,
  { olderThanMs, max, clock }: { olderThanMs: number; max: number; clock: Clock },
): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    await sql`set local sandman.pruning = 'on'`.execute(transaction)
    const { numAffectedRows } = await sql`
      delete from sandman.events where id in (
        select id from sandman.events as old
        where at < ${dbNow(clock)} - ${interval(olderThanMs)} and exists (
          select from sandman.events as later
          where later.sandbox_id = old.sandbox_id and later.id > old.id and later.to_state is not null)
        order by at limit ${max})`.execute(transaction)
    return Number(numAffectedRows ?? 0)
  })
}
