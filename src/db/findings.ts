import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { storable } from '../sandbox/failures.ts'
import type { Look } from '../sandbox/findings.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, FindingRow, SweepEventName } from './schema.ts'

/** Which finding is meant. */
type FindingKey = Pick<FindingRow, 'fleet' | 'backend' | 'kind' | 'ref'>

export type Suspicion = FindingKey & {
  place: string
  sandboxId: string
  checkpoint?: CheckpointRow['kind']
  asked: string
  saw: string
}

/**
 * Writes down a first look, and when the second one is due. What is known already stays as it is: its second look comes when it
 * is due, and not sooner because of a second list. What something was done about before begins anew. Returns what was not known.
 */
export async function recordFirstLooks(
  db: Db,
  suspicions: readonly Suspicion[],
  { againMs, clock }: { againMs: number; clock: Clock },
): Promise<FindingRow['kind'][]> {
  if (suspicions.length === 0) return []
  const now = dbNow(clock)
  // Each once: a list may show the same twice.
  const once = new Map(suspicions.map((suspicion) => [`${suspicion.kind} ${suspicion.ref}`, suspicion]))
  const given = [...once.values()].map((suspicion) => ({ ...suspicion, saw: storable(suspicion.saw) }))
  const { rows } = await sql<Pick<FindingRow, 'kind'>>`
    insert into sandman.findings (fleet, backend, kind, ref, place, sandbox_id, checkpoint, looks, first_seen_at, look_at)
    select fleet, backend, kind, ref, place, "sandboxId", checkpoint,
      jsonb_build_array(jsonb_build_object('at', ${now}, 'place', place, 'asked', asked, 'saw', saw)),
      ${now}, ${now} + ${interval(againMs)}
    from jsonb_to_recordset(${JSON.stringify(given)}::jsonb)
      as given (fleet text, backend text, kind text, ref text, place text, "sandboxId" text, checkpoint text, asked text,
        saw text)
    on conflict (fleet, backend, kind, ref) do update set place = excluded.place, sandbox_id = excluded.sandbox_id,
      looks = excluded.looks, first_seen_at = excluded.first_seen_at, look_at = excluded.look_at, acting_at = null, acted_at = null,
      operation_id = null
    -- One that was seen from another place, which may be swept no more, begins anew as well.
    where findings.acted_at is not null or findings.place <> excluded.place
    returning kind`.execute(db)
  return rows.map(({ kind }) => kind)
}

type Place = { fleet: string; backend: string; place: string }

/** Those whose second look is due, the oldest first. */
export async function dueFindings(
  db: Db,
  { fleet, backend, place, max, clock }: Place & { max: number; clock: Clock },
): Promise<FindingRow[]> {
  const { rows } = await sql<FindingRow>`
    select * from sandman.findings
    where fleet = ${fleet} and backend = ${backend} and place = ${place} and look_at <= ${dbNow(clock)}
    order by look_at limit ${max}`.execute(db)
  return rows
}

/** The same again: it is true, and may be acted on. Returns all that was seen. */
export async function recordLook(db: Db, key: FindingKey, seen: Omit<Look, 'at'>, clock: Clock): Promise<Look[]> {
  const { rows } = await sql<{ looks: Look[] }>`
    update sandman.findings set looks = looks || jsonb_build_object('at', ${dbNow(clock)}, 'place', ${seen.place}::text,
      'asked', ${seen.asked}::text, 'saw', ${storable(seen.saw)}::text)
    where ${where(key)} returning looks`.execute(db)
  return rows[0]?.looks ?? []
}

/** Said before something is done about it: if whoever does it dies, or its answer is lost, it is known who did it. */
export async function recordActing(db: Db, key: FindingKey, clock: Clock): Promise<void> {
  await sql`update sandman.findings set acting_at = coalesce(acting_at, ${dbNow(clock)}) where ${where(key)}`.execute(
    db,
  )
}

/** Nobody could say: it is looked at again later, and nothing is added to what was seen. */
export async function postpone(db: Db, key: FindingKey, ms: number, clock: Clock): Promise<void> {
  await sql`update sandman.findings set look_at = ${dbNow(clock)} + ${interval(ms)}
    where ${where(key)} and look_at is not null`.execute(db)
}

/** It was not so, or is not so any more. */
export async function dismiss(db: Db, key: FindingKey): Promise<void> {
  await sql`delete from sandman.findings where ${where(key)} and acted_at is null`.execute(db)
}

/**
 * Writes down that something was done about it, with the event in its sandbox's history where the operation does not tell that.
 */
export async function recordAct(
  db: Db,
  key: FindingKey,
  {
    operationId = null,
    event,
    clock,
  }: { operationId?: string | null; event: SweepEventName | undefined; clock: Clock },
): Promise<void> {
  const now = dbNow(clock)
  await sql`
    with acted as (
      update sandman.findings set look_at = null, acted_at = ${now}, operation_id = ${operationId}
      where ${where(key)} and acted_at is null returning *
    )
    insert into sandman.events (sandbox_id, at, type, detail)
    select sandbox_id, ${now}, ${event ?? null}::text, jsonb_build_object('found', kind, 'backend', backend, 'ref', ref, 'looks', looks)
    from acted
    where ${event !== undefined} and exists (select from sandman.sandboxes where id = acted.sandbox_id and fleet = acted.fleet)`.execute(
    db,
  )
}

/** The open ones first; those of one sandbox, or of all. `actedSince`: only what is open, or was acted on since then. */
export async function listFindings(
  db: Db,
  { fleet, sandboxId, actedSince, max }: { fleet: string; sandboxId?: string; actedSince?: Date; max: number },
): Promise<FindingRow[]> {
  let query = db.selectFrom('findings').selectAll().where('fleet', '=', fleet)
  if (sandboxId !== undefined) query = query.where('sandbox_id', '=', sandboxId)
  if (actedSince)
    query = query.where(({ eb, or }) => or([eb('acted_at', 'is', null), eb('acted_at', '>=', actedSince)]))
  return query.orderBy(sql`acted_at desc nulls first`).orderBy('first_seen_at').limit(max).execute()
}

function where({ fleet, backend, kind, ref }: FindingKey) {
  return sql`fleet = ${fleet} and backend = ${backend} and kind = ${kind} and ref = ${ref}`
}
