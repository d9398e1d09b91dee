import { sql } from 'kysely'
import { type FoundSandbox, fromJson, type JoinedSandbox, type Json, sandboxFromJson } from './json-row.ts'
import type { Db } from './pool.ts'
import type { OperationRow } from './schema.ts'

/** An operation with its sandbox, and with what that can be resumed from. */
export type FoundOperation = FoundSandbox & { operation: OperationRow }

/** Those of them that there are; or only those that have ended. */
export async function findOperations(
  db: Db,
  { fleet, ids, settled = false }: { fleet: string; ids: string[]; settled?: boolean },
): Promise<FoundOperation[]> {
  const { rows } = await sql<JoinedSandbox & { operation: Json }>`
    /* find_operations */
    select to_jsonb(operations) as operation, to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.operations
    join sandman.sandboxes on sandboxes.id = operations.sandbox_id
    left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where operations.id = any (${ids}::text[]) and sandboxes.fleet = ${fleet} and (settled_at is not null or not ${settled})`.execute(
    db,
  )
  return rows.map(({ operation, ...joined }) => ({
    operation: fromJson<OperationRow>(operation),
    ...sandboxFromJson(joined),
  }))
}
