import { type RawBuilder, sql } from 'kysely'
import { type FoundSandbox, type JoinedSandbox, sandboxFromJson } from './json-row.ts'
import type { Db } from './pool.ts'
import type { SandboxRow } from './schema.ts'
import { type Filter, walk } from './tags.ts'

export async function findSandbox(
  db: Db,
  { fleet, id }: { fleet: string; id: string },
): Promise<FoundSandbox | undefined> {
  const [found] = await select(db, sql`sandboxes.fleet = ${fleet} and sandboxes.id = ${id}`)
  return found
}

type Listing = Filter & { fleet: string; before?: string | undefined; max: number }

/**
 * The newest first, a page at a time. `cutOffAt` is where to go on when the looking was cut off before the page was full; what
 * that bounds is said in `tags.ts`.
 */
export async function listSandboxes(
  db: Db,
  asked: Listing,
): Promise<{ found: FoundSandbox[]; cutOffAt: string | undefined }> {
  const { rows } = await sql<JoinedSandbox & { id: string }>`
    ${walk(asked)}
    select walk.id, to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from walk left join sandman.sandboxes on sandboxes.id = walk.id and walk.is_found
      left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    order by walk.id desc`.execute(db)
  const found = rows.flatMap((row) => (row.sandbox ? [sandboxFromJson(row as JoinedSandbox)] : []))
  return { found, cutOffAt: rows.find(({ sandbox }) => sandbox === null)?.id }
}

/** Backends that a fleet has sandboxes on, as `found (backend)`: one probe of an index for each, however many sandboxes there are. */
export function backendsOf(fleet: string): RawBuilder<unknown> {
  return sql`found as (
      (select backend from sandman.sandboxes where fleet = ${fleet} and state <> 'gone' order by backend limit 1)
      union all
      select next.backend from found, lateral (select sandboxes.backend from sandman.sandboxes
        where fleet = ${fleet} and state <> 'gone' and sandboxes.backend > found.backend order by sandboxes.backend limit 1) as next
    )`
}

/** Every backend that a fleet has ever swept, or has sandboxes on. */
export async function listBackends(db: Db, fleet: string): Promise<string[]> {
  const { rows } = await sql<{ backend: string }>`
    with recursive ${backendsOf(fleet)}
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
  const { rows } = await sql<JoinedSandbox>`
    select to_jsonb(sandboxes) as sandbox, to_jsonb(checkpoints) as checkpoint
    from sandman.sandboxes left join sandman.checkpoints on checkpoints.id = sandboxes.checkpoint_id
    where ${where}`.execute(db)
  return rows.map(sandboxFromJson)
}
