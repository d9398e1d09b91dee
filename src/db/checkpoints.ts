import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { VERIFY_AGAIN_MS } from './bell-times.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow } from './schema.ts'
import { statement } from './statement.ts'

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
    .where('sandboxes.fleet', '=', fleet)
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
  await statement`
    /* record_deleted */ update sandman.checkpoints set status = 'deleted'
    where id = ${id} and status <> 'deleted'`.execute(db)
}

/** The same, by its provider's name: whoever it is labelled with, another sandbox's row may have it. */
export async function recordDeletedByRef(
  db: Db,
  { fleet, backend, ref }: { fleet: string; backend: string; ref: string },
): Promise<void> {
  await sql`update sandman.checkpoints set status = 'deleted' from sandman.sandboxes
    where sandboxes.id = checkpoints.sandbox_id and sandboxes.fleet = ${fleet} and backend = ${backend}
      and checkpoints.provider_ref = ${ref} and status <> 'deleted'`.execute(db)
}

/**
 * Of a checkpoint `kept`: somebody was given it as a snapshot, or has imported it as one, and may want to make a sandbox from it. So
 * it is kept, whoever rested on it in between.
 */
export const IS_PROMISED = sql`(kept.kind = 'snapshot' or exists (select from sandman.operations
          where operations.sandbox_id = kept.sandbox_id and operations.checkpoint_id = kept.id and operations.kind = 'snapshot'))`

export async function isPromised(db: Db, id: string): Promise<boolean> {
  const { rows } = await sql`select from sandman.checkpoints as kept where kept.id = ${id} and ${IS_PROMISED}`.execute(
    db,
  )
  return rows.length > 0
}

export type Young = Pick<CheckpointRow, 'id' | 'sandbox_id' | 'provider_ref' | 'kind'> & {
  /** Whether its sandbox sleeps on it. */
  isRestedOn: boolean
  /** `verify_at`, to the last digit. */
  dueAt: string
}

/** Checkpoints that are still young enough to be looked at again, and are due: the first of them, or those behind another. */
export async function findYoung(
  db: Db,
  asked: { fleet: string; backend: string; after?: Pick<Young, 'dueAt' | 'id'> | undefined; max: number; clock: Clock },
): Promise<Young[]> {
  const { fleet, backend, after, max, clock } = asked
  const { rows } = await sql<Young>`
    /* find_young */ select checkpoints.id, checkpoints.sandbox_id, checkpoints.provider_ref, checkpoints.kind,
      coalesce(sandboxes.checkpoint_id = checkpoints.id, false) as "isRestedOn", verify_at::text as "dueAt"
    from sandman.checkpoints join sandman.sandboxes on sandboxes.id = checkpoints.sandbox_id
    where checkpoints.fleet = ${fleet} and verify_by = ${backend} and checkpoints.status = 'ready' and verify_at <= ${dbNow(clock)}
      and (verify_at, checkpoints.id) > (${after?.dueAt ?? '-infinity'}::timestamptz, ${after?.id ?? ''})
      and sandboxes.operation_id is null
    order by verify_at, checkpoints.id limit ${max}`.execute(db)
  return rows
}

/** When a checkpoint is as old as the next number says; null when it is older than all of them. */
const nextLook = (now: RawBuilder<unknown>) => sql`(
      select min(created_at + make_interval(secs => ms / 1000)) from unnest(${[...VERIFY_AGAIN_MS]}::float8[]) as ms
      where created_at + make_interval(secs => ms / 1000) > ${now})`

/** It was whole: it is looked at again when it is older, or not any more. */
export async function recordVerified(db: Db, id: string, clock: Clock): Promise<void> {
  const now = dbNow(clock)
  await sql`update sandman.checkpoints set verified_at = ${now}, verify_at = ${nextLook(now)}
    where id = ${id} and status = 'ready'`.execute(db)
}

/** They need no look now, and come up again when they are older, as if they had been whole. */
export async function passOver(db: Db, young: readonly Pick<Young, 'id'>[], clock: Clock): Promise<void> {
  await sql`update sandman.checkpoints set verify_at = ${nextLook(dbNow(clock))}
    where id = any (${young.map(({ id }) => id)}::text[]) and status = 'ready'`.execute(db)
}

/** It is seen to by somebody else, or could not be looked at now. */
export async function verifyLater(db: Db, id: string, ms: number | null, clock: Clock): Promise<void> {
  await sql`update sandman.checkpoints set verify_at = ${dbNow(clock)} + ${interval(ms)} where id = ${id}`.execute(db)
}

/** A checkpoint that nothing rests on is not there any more. False when something rests on it: then its sandbox is ended instead. */
export async function recordMissing(db: Db, { id }: { id: string }): Promise<boolean> {
  const { numAffectedRows } = await sql`update sandman.checkpoints set status = 'missing'
    where id = ${id} and status = 'ready' and not exists (select from sandman.sandboxes where checkpoint_id = checkpoints.id)`.execute(
    db,
  )
  return numAffectedRows === 1n
}

type Known = CheckpointRow & Pick<Young, 'isRestedOn'> & { isAtRest: boolean }

/** By its provider's name, of one sandbox, and what that sandbox is doing. */
export async function findByRef(
  db: Db,
  { fleet, sandboxId, ref }: { fleet: string; sandboxId: string; ref: string },
): Promise<Known | undefined> {
  const { rows } = await sql<Known>`
    select checkpoints.*, coalesce(sandboxes.checkpoint_id = checkpoints.id, false) as "isRestedOn",
      sandboxes.operation_id is null as "isAtRest"
    from sandman.checkpoints join sandman.sandboxes on sandboxes.id = checkpoints.sandbox_id
    where sandboxes.fleet = ${fleet} and sandboxes.id = ${sandboxId} and checkpoints.provider_ref = ${ref}
      and checkpoints.status = 'ready'
    order by "isRestedOn" desc limit 1`.execute(db)
  return rows[0]
}
