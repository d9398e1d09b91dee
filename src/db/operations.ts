import { sql } from 'kysely'
import { fromJson } from './json-row.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, OperationRow, SandboxRow } from './schema.ts'

/** An operation with its sandbox, and with what that can be resumed from. */
export type FoundOperation = { operation: OperationRow; sandbox: SandboxRow; checkpoint: CheckpointRow | undefined }

/** Those of them that there are; or only those that have ended. */
export async function findOperations(
  db: Db,
  { fleet, ids, settled = false }: { fleet: string; ids: string[]; settled?: boolean },
): Promise<FoundOperation[]> {
  const { rows } = await sql<{ operation: Json; sandbox: Json; checkpoint: Json | null }>`
    /* find_operations */
    select to_jsonb(operations) as operation, to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.operations
    join sandman.sandboxes on sandboxes.id = operations.sandbox_id
    left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where operations.id = any (${ids}::text[]) and sandboxes.fleet = ${fleet} and (settled_at is not null or not ${settled})`.execute(
    db,
  )
  return rows.map(({ operation, sandbox, checkpoint }) => ({
    operation: fromJson<OperationRow>(operation),
    sandbox: fromJson<SandboxRow>(sandbox),
    checkpoint: checkpoint ? fromJson<CheckpointRow>(checkpoint) : undefined,
  }))
}

type Json = Record<string, unknown>
