import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow } from './now.ts'
import type { Db } from './pool.ts'
import type { CanaryRow } from './schema.ts'

/** A canary is a question of the moment: after this long nobody waits for its answer. */
const KEEP_HOURS = 24

/** Writes the question, and forgets old ones in the same statement. */
export async function sendCanary(db: Db, { fleet, clock }: { fleet: string; clock: Clock }): Promise<CanaryRow> {
  return db
    .with('forgotten', (with_) =>
      with_
        .deleteFrom('canaries')
        .where('sent_at', '<', sql<Date>`${dbNow(clock)} - make_interval(hours => ${KEEP_HOURS})`),
    )
    .insertInto('canaries')
    .values({ fleet, sent_at: dbNow(clock) as unknown as Date })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Signs a canary, once: the first worker's answer stands. Undefined when there is no such question, or it has its answer. */
export async function answerCanary(
  db: Db,
  { id, fleet, by, clock }: { id: string; fleet: string; by: string; clock: Clock },
): Promise<CanaryRow | undefined> {
  return db
    .updateTable('canaries')
    .set({ answered_at: dbNow(clock), answered_by: by })
    .where('id', '=', id)
    .where('fleet', '=', fleet)
    .where('answered_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

export async function findCanary(db: Db, id: string): Promise<CanaryRow | undefined> {
  return db.selectFrom('canaries').selectAll().where('id', '=', id).executeTakeFirst()
}
