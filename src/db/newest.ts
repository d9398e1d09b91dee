import { sql } from 'kysely'
import type { Db } from './pool.ts'
import { type CheckpointRow, type OperationRow, SCHEMA } from './schema.ts'

type Rows = { operations: OperationRow; checkpoints: CheckpointRow }

/** What a sandbox has ever had of something, the newest first, a page at a time. */
export async function listNewest<Table extends keyof Rows>(
  db: Db,
  table: Table,
  { sandboxId, before, max }: { sandboxId: string; before?: string | undefined; max: number },
): Promise<Rows[Table][]> {
  const behind = before === undefined ? sql`` : sql`and id < ${before}`
  const { rows } = await sql<Rows[Table]>`
    select * from ${sql.table(`${SCHEMA}.${table}`)} where sandbox_id = ${sandboxId} ${behind}
    order by id desc limit ${max}`.execute(db)
  return rows
}
