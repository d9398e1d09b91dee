import type { Db } from './pool.ts'
import type { OperationRow } from './schema.ts'

export async function findOperation(
  db: Db,
  { fleet, id }: { fleet: string; id: string },
): Promise<OperationRow | undefined> {
  return db
    .selectFrom('operations')
    .innerJoin('sandboxes', 'sandboxes.id', 'operations.sandbox_id')
    .selectAll('operations')
    .where('operations.id', '=', id)
    .where('fleet', '=', fleet)
    .executeTakeFirst()
}
