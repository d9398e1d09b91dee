import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { type FoundSandbox, type JoinedSandbox, sandboxFromJson } from './json-row.ts'
import { dbNow } from './now.ts'
import type { Db } from './pool.ts'

/** An app may touch a sandbox with every request of its users: more often than this, it is not written down. */
const TOUCHED_EVERY = sql`interval '1 second'`

/** Says that a sandbox is in use. That begins its idle limit anew, and no other. Undefined when there is no such sandbox. */
export async function touch(
  db: Db,
  { fleet, id, clock }: { fleet: string; id: string; clock: Clock },
): Promise<FoundSandbox | undefined> {
  const now = dbNow(clock)
  const { rows } = await sql<JoinedSandbox>`
    /* touch */ with touched as (
      update sandman.sandboxes set last_active_at = ${now}
      where id = ${id} and fleet = ${fleet} and state <> 'gone' and last_active_at < ${now} - ${TOUCHED_EVERY}
      returning *
    )
    select coalesce((select to_jsonb(touched) from touched), to_jsonb(sandboxes)) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.sandboxes left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where sandboxes.id = ${id} and sandboxes.fleet = ${fleet}`.execute(db)
  return rows[0] && sandboxFromJson(rows[0])
}
