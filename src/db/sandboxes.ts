import { type RawBuilder, sql } from 'kysely'
import type { State } from '../sandbox/states.ts'
import { fromJson } from './json-row.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, SandboxRow } from './schema.ts'

/** A sandbox with what it can be resumed from. */
export type FoundSandbox = { sandbox: SandboxRow; checkpoint: CheckpointRow | undefined }

export async function findSandbox(
  db: Db,
  { fleet, id }: { fleet: string; id: string },
): Promise<FoundSandbox | undefined> {
  const [found] = await select(db, sql`sandboxes.fleet = ${fleet} and sandboxes.id = ${id}`)
  return found
}

type Listing = {
  fleet: string
  state?: State | undefined
  backend?: string | undefined
  before?: string | undefined
  max: number
}

/** The newest first, a page at a time. */
export async function listSandboxes(db: Db, { fleet, state, backend, before, max }: Listing): Promise<FoundSandbox[]> {
  const conditions = [
    sql`sandboxes.fleet = ${fleet}`,
    ...(state === undefined ? [] : [sql`sandboxes.state = ${state}`]),
    ...(backend === undefined ? [] : [sql`sandboxes.backend = ${backend}`]),
    ...(before === undefined ? [] : [sql`sandboxes.id < ${before}`]),
  ]
  return select(db, sql`${sql.join(conditions, sql` and `)} order by sandboxes.id desc limit ${max}`)
}

/** Every backend that a fleet has ever swept, or has sandboxes on: one probe of an index for each, however many sandboxes there are. */
export async function listBackends(db: Db, fleet: string): Promise<string[]> {
  const { rows } = await sql<{ backend: string }>`
    with recursive found as (
      (select backend from sandman.sandboxes where fleet = ${fleet} and state <> 'gone' order by backend limit 1)
      union all
      select next.backend from found, lateral (select sandboxes.backend from sandman.sandboxes
        where fleet = ${fleet} and state <> 'gone' and sandboxes.backend > found.backend order by sandboxes.backend limit 1) as next
    )
    select backend from found union select backend from sandman.sweeps where fleet = ${fleet} order by backend`.execute(
    db,
  )
  return rows.map(({ backend }) => backend)
}

/** Who has this instance, of whichever fleet. */
export async function findByProviderRef(
  db: Db,
  { backend, providerRef }: { backend: string; providerRef: string },
): Promise<SandboxRow | undefined> {
  return db
    .selectFrom('sandboxes')
    .selectAll()
    .where('backend', '=', backend)
    .where('provider_ref', '=', providerRef)
    .where('state', '<>', 'gone')
    .executeTakeFirst()
}

async function select(db: Db, where: RawBuilder<unknown>): Promise<FoundSandbox[]> {
  const { rows } = await sql<{ sandbox: Record<string, unknown>; checkpoint: Record<string, unknown> | null }>`
    select to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.sandboxes left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where ${where}`.execute(db)
  return rows.map(({ sandbox, checkpoint }) => ({
    sandbox: fromJson<SandboxRow>(sandbox),
    checkpoint: checkpoint ? fromJson<CheckpointRow>(checkpoint) : undefined,
  }))
}
