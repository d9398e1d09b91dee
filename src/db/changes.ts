import { sql } from 'kysely'
import type { Db } from './pool.ts'

/**
 * What a sandbox looks like from afar: as long as this is the same, nothing has changed of it, of its operations, or of which executions
 * wait, run or have ended. What else there is of an execution is not in it: who reads an output is told by that itself, and to be told here,
 * too, would be to read everything anew once a second for as long as something prints. Nor is what the sweeper only suspects.
 */
type Mark = { id: string; mark: string }

/** The marks of those that there are, and the newest sandbox of the fleet: for each of them a probe of three indexes. */
export async function findMarks(
  db: Db,
  { fleet, ids }: { fleet: string; ids: string[] },
): Promise<{ marks: Mark[]; newest: string | null }> {
  const { rows } = await sql<{ id: string | null; mark: string | null; newest: string | null }>`
    /* find_marks */
    select sandboxes.id, concat_ws('/', sandboxes.fence, sandboxes.waiting, sandboxes.open_executions,
      sandboxes.last_active_at, sandboxes.expires_at, operations.attempt,
      operations.failures, (select id from sandman.events where sandbox_id = sandboxes.id order by id desc limit 1)) as mark,
      newest.id as newest
    from (select (select id from sandman.sandboxes where fleet = ${fleet} order by id desc limit 1) as id) as newest
    left join sandman.sandboxes on sandboxes.id = any (${ids}::text[]) and sandboxes.fleet = ${fleet}
    left join sandman.operations on operations.id = sandboxes.operation_id`.execute(db)
  const marks = rows.flatMap(({ id, mark }) => (id !== null && mark !== null ? [{ id, mark }] : []))
  return { marks, newest: rows[0]?.newest ?? null }
}
