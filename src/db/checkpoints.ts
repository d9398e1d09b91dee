import { sql } from 'kysely'
import type { Db } from './pool.ts'
import type { CheckpointRow } from './schema.ts'

/** Of any sandbox of the fleet, with the backend that has it. */
export async function findCheckpoint(
  db: Db,
  { fleet, id }: { fleet: string; id: string },
): Promise<{ checkpoint: CheckpointRow; backend: string } | undefined> {
  const found = await db
    .selectFrom('checkpoints')
    .innerJoin('sandboxes', 'sandboxes.id', 'checkpoints.sandbox_id')
    .selectAll('checkpoints')
    .select('backend')
    .where('checkpoints.id', '=', id)
    .where('fleet', '=', fleet)
    .executeTakeFirst()
  if (!found) return undefined
  const { backend, ...checkpoint } = found
  return { checkpoint, backend }
}

/** What a sandbox has left at its provider, in order of creation, a page at a time. */
export async function listCheckpoints(
  db: Db,
  { sandboxId, after, max }: { sandboxId: string; after: string; max: number },
): Promise<CheckpointRow[]> {
  return db
    .selectFrom('checkpoints')
    .selectAll()
    .where('sandbox_id', '=', sandboxId)
    .where('id', '>', after)
    .where('status', '<>', 'deleted')
    .orderBy('id')
    .limit(max)
    .execute()
}

/** Writes down that a checkpoint was deleted at its provider. One that a sandbox rests on cannot be: the database refuses. */
export async function recordDeleted(db: Db, id: string): Promise<void> {
  await sql`update sandman.checkpoints set status = 'deleted' where id = ${id} and status <> 'deleted'`.execute(db)
}

/** Whether somebody was given this checkpoint as a snapshot, and may want to make a sandbox from it. */
export async function isPromised(db: Db, id: string): Promise<boolean> {
  const promised = await db
    .selectFrom('operations')
    .innerJoin('checkpoints', (join) =>
      join
        .onRef('operations.sandbox_id', '=', 'checkpoints.sandbox_id')
        .onRef('operations.checkpoint_id', '=', 'checkpoints.id'),
    )
    .select('operations.id')
    .where('checkpoints.id', '=', id)
    .where('operations.kind', '=', 'snapshot')
    .limit(1)
    .executeTakeFirst()
  return promised !== undefined
}
