import type { Db } from './pool.ts'
import type { SandboxRow } from './schema.ts'

export async function findSandbox(
  db: Db,
  { fleet, id }: { fleet: string; id: string },
): Promise<SandboxRow | undefined> {
  return db.selectFrom('sandboxes').selectAll().where('id', '=', id).where('fleet', '=', fleet).executeTakeFirst()
}
