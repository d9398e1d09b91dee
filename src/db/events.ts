import { sql } from 'kysely'
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

/** The newest of a sandbox's history, the oldest of them first; its last state change is among them, however long ago that was. */
export async function listNewestEvents(db: Db, sandboxId: string, max: number): Promise<EventRow[]> {
  const { rows } = await sql<EventRow>`
    /* list_newest_events */ select id, sandbox_id, at, type, from_state, to_state, operation_id, execution_id, fence, detail
    from sandman.events where id in (
      (select id from sandman.events where sandbox_id = ${sandboxId} order by id desc limit ${max})
      union all
      (select id from sandman.events where sandbox_id = ${sandboxId} and to_state is not null order by id desc limit 1))
    order by id`.execute(db)
  return rows
}
