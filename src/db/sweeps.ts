import { type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { storable } from '../sandbox/failures.ts'
import { IS_PROMISED } from './checkpoints.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { SandboxRow, SightingRow, SweepPhase, SweepRow } from './schema.ts'

/** The right to sweep a place, for as long as it is renewed. */
export type Hold = Pick<SweepRow, 'fleet' | 'backend' | 'place'> & { takenBy: string; holdMs: number; clock: Clock }

export type TakenSweep = SweepRow & {
  /** It is time for a new round. While a provider fails, every tick tries. */
  isDue: boolean
  isBelieved: boolean
}

/** Undefined when somebody else sweeps there. */
export async function takeSweep(db: Db, hold: Hold, { roundMs }: { roundMs: number }): Promise<TakenSweep | undefined> {
  const { fleet, backend, place, takenBy, holdMs, clock } = hold
  const now = dbNow(clock)
  const { rows } = await sql<TakenSweep>`
    insert into sandman.sweeps (fleet, backend, place, taken_by, taken_until)
    values (${fleet}, ${backend}, ${place}, ${takenBy}, ${now} + ${interval(holdMs)})
    on conflict (fleet, backend, place) do update set taken_by = excluded.taken_by, taken_until = excluded.taken_until
    where sweeps.taken_until is null or sweeps.taken_until <= ${now}
    returning *, coalesce(believed_until > ${now}, false) as "isBelieved",
      phase = 'done' and (failing_since is not null or coalesce(began_at + ${interval(roundMs)} <= ${now}, true)) as "isDue"`.execute(
    db,
  )
  return rows[0]
}

/** Whoever held a place has lost it, because it was not heard of for too long. */
export class LostHold extends Error {}

/** Every write of a sweep is made by who holds the place, and renews that. */
async function write(db: Db, hold: Hold, set: RawBuilder<unknown>): Promise<SweepRow> {
  const { fleet, backend, place, takenBy, holdMs, clock } = hold
  const { rows } = await sql<SweepRow>`
    update sandman.sweeps set ${set}, taken_until = ${dbNow(clock)} + ${interval(holdMs)}
    where fleet = ${fleet} and backend = ${backend} and place = ${place} and taken_by = ${takenBy}
    returning *`.execute(db)
  if (!rows[0]) throw new LostHold(`another worker sweeps ${backend} at ${place} by now`)
  return rows[0]
}

export function renew(db: Db, hold: Hold): Promise<SweepRow> {
  return write(db, hold, sql`taken_by = taken_by`)
}

export function beginRound(db: Db, hold: Hold): Promise<SweepRow> {
  return write(
    db,
    hold,
    sql`round = round + 1, phase = 'instances', cursor = null, began_at = ${dbNow(hold.clock)}, instances = 0, checkpoints = 0,
      strangers = 0, expected = 0, missing = 0`,
  )
}

export function enterPhase(db: Db, hold: Hold, phase: SweepPhase): Promise<SweepRow> {
  return write(db, hold, sql`phase = ${phase}, cursor = null`)
}

/** All was compared, and may be believed. */
export function endRound(db: Db, hold: Hold): Promise<SweepRow> {
  return write(db, hold, sql`phase = 'done', cursor = null, ended_at = ${dbNow(hold.clock)}`)
}

/** A page of sandboxes was compared, up to this one or to the last. */
export function recordCompared(
  db: Db,
  hold: Hold,
  { reached, expected, missing }: { reached: string | undefined; expected: number; missing: number },
): Promise<SweepRow> {
  return write(
    db,
    hold,
    sql`cursor = ${reached ?? null}, expected = expected + ${expected}::int, missing = missing + ${missing}::int`,
  )
}

/** The first failure stands until a whole list was read again. */
export function recordFailing(db: Db, hold: Hold, failure: string | undefined): Promise<SweepRow> {
  if (failure === undefined) return write(db, hold, sql`failing_since = null, failure = null`)
  const now = dbNow(hold.clock)
  // Whatever was listed so far may be a part of what there is: the list is begun anew.
  return write(
    db,
    hold,
    sql`failing_since = coalesce(failing_since, ${now}), failure = ${storable(failure)}, phase = 'done', cursor = null`,
  )
}

export function recordStopped(db: Db, hold: Hold, because: string | undefined): Promise<SweepRow> {
  if (because === undefined) return write(db, hold, sql`stopped_at = null, stopped_because = null`)
  return write(db, hold, sql`stopped_at = coalesce(stopped_at, ${dbNow(hold.clock)}), stopped_because = ${because}`)
}

export async function releaseSweep(db: Db, { fleet, backend, place, takenBy, clock }: Hold): Promise<void> {
  await sql`update sandman.sweeps set taken_by = null, taken_until = null, ticked_at = ${dbNow(clock)}
    where fleet = ${fleet} and backend = ${backend} and place = ${place} and taken_by = ${takenBy}`.execute(db)
}

export async function listSweeps(db: Db, fleet: string): Promise<SweepRow[]> {
  return db.selectFrom('sweeps').selectAll().where('fleet', '=', fleet).orderBy('backend').orderBy('place').execute()
}

/** Backends with sandboxes that are older than this, which nobody has swept for as long; not those whose sweep fails or is under way. */
export async function listUnswept(
  db: Db,
  { fleet, forMs }: { fleet: string; forMs: number },
): Promise<{ backend: string; sandboxes: number; sweptAt: Date | null }[]> {
  const long = sql`now() - ${interval(forMs)}`
  const { rows } = await sql<{ backend: string; sandboxes: number; sweptAt: Date | null }>`
    select on_it.backend, sandboxes, max(ticked_at) as "sweptAt"
    from (select backend, count(*) as sandboxes from sandman.sandboxes
          where fleet = ${fleet} and state <> 'gone' and created_at < ${long} group by backend) as on_it
    left join sandman.sweeps on sweeps.fleet = ${fleet} and sweeps.backend = on_it.backend
    group by on_it.backend, sandboxes
    having not coalesce(bool_or(failure is not null or greatest(ticked_at, taken_until) > ${long}), false)
    order by on_it.backend`.execute(db)
  return rows
}

/** Other places that nobody has swept for so long. */
export async function forgetPlaces(db: Db, { fleet, backend, place, clock }: Hold, forMs: number): Promise<void> {
  await sql`delete from sandman.sweeps
    where fleet = ${fleet} and backend = ${backend} and place <> ${place} and coalesce(ticked_at, taken_until) < ${dbNow(clock)} - ${interval(forMs)}`.execute(
    db,
  )
}

/** All places of a backend fail, because nobody can even say which one it is. Returns those that are known, and for which that is new. */
export async function recordUnplaced(
  db: Db,
  { fleet, backend, failure, clock }: { fleet: string; backend: string; failure: string; clock: Clock },
): Promise<{ place: string; isNew: boolean }[]> {
  const { rows } = await sql<{ place: string; isNew: boolean }>`
    with known as (
      select place, failing_since is null as "isNew" from sandman.sweeps
      where fleet = ${fleet} and backend = ${backend} order by place for update
    ), recorded as (
      update sandman.sweeps set failing_since = coalesce(failing_since, ${dbNow(clock)}), failure = ${storable(failure)}
      where fleet = ${fleet} and backend = ${backend}
    )
    select place, "isNew" from known`.execute(db)
  return rows
}

/** Believes for a while whatever is shown: somebody who knows has said so. */
export async function believe(
  db: Db,
  { fleet, backend, forMs, clock }: { fleet: string; backend: string; forMs: number; clock: Clock },
): Promise<void> {
  await sql`update sandman.sweeps set believed_until = ${dbNow(clock)} + ${interval(forMs)}
    where fleet = ${fleet} and backend = ${backend}`.execute(db)
}

type Seen = {
  kind: SightingRow['kind']
  items: readonly { ref: string; sandboxId: string }[]
  next: string | undefined
}

/**
 * A page of a list, together with where the next one begins: wherever it is cut, none is counted twice and none left out. `isNew`
 * is false when this round has seen all of it before.
 */
export async function recordPage(
  db: Db,
  hold: Hold,
  { round }: SweepRow,
  { kind, items, next }: Seen,
): Promise<{ row: SweepRow; isNew: boolean }> {
  const { fleet, backend, place } = hold
  return db.transaction().execute(async (transaction) => {
    const { rows } = await sql<{ seen: number; strangers: number }>`
      with seen as (
        insert into sandman.sightings (fleet, backend, place, kind, ref, sandbox_id, round)
        select distinct on (ref) ${fleet}, ${backend}, ${place}, ${kind}, ref, sandbox_id, ${round}::int
        from unnest(${items.map(({ ref }) => ref)}::text[], ${items.map(({ sandboxId }) => sandboxId)}::text[]) as given (ref, sandbox_id)
        on conflict (fleet, backend, place, kind, ref) do update set round = excluded.round, sandbox_id = excluded.sandbox_id
        where sightings.round <> excluded.round
        returning sandbox_id
      )
      select count(*) as seen, count(*) filter (
        where not exists (select from sandman.sandboxes where sandboxes.id = seen.sandbox_id)) as strangers
      from seen`.execute(transaction)
    const { seen, strangers } = rows[0] as (typeof rows)[number]
    const count = sql.ref(kind === 'instance' ? 'instances' : 'checkpoints')
    const unheard = kind === 'instance' ? sql`, strangers = strangers + ${strangers}::int` : sql``
    const row = await write(
      transaction,
      hold,
      sql`${count} = ${count} + ${seen}::int, cursor = ${next ?? null} ${unheard}`,
    )
    return { row, isNew: seen > 0 || items.length === 0 }
  })
}

/** Forgets what is not shown any more and belongs to no sandbox that should be there: that is not missed by anybody. */
export async function forgetSightings(db: Db, { fleet, backend, place }: Hold, { round }: SweepRow): Promise<void> {
  await sql`delete from sandman.sightings
    where fleet = ${fleet} and backend = ${backend} and place = ${place} and round < ${round} and (kind = 'checkpoint' or not exists (
      select from sandman.sandboxes where sandboxes.backend = sightings.backend and sandboxes.provider_ref = sightings.ref
        and sandboxes.state in ('running', 'suspended') and sandboxes.fleet = sightings.fleet))`.execute(db)
}

/** A sandbox that rests. */
export type Compared = Pick<SandboxRow, 'id' | 'state'> & {
  ref: string
  checkpointRef: string | null
  /** What the lists of this round do not show of it. */
  lacks: 'instance' | 'checkpoint' | null
  /** It is suspected already, and has its second look when that is due. */
  isSuspected: boolean
  /** A worker or a list has known it, and its time was not up: that it is there is not only what somebody has imported. */
  isExpected: boolean
}

/**
 * Compares the next sandboxes in a state with what the lists have shown. Only those that have rested since before the lists
 * were begun: of the others, the lists cannot know. `last` is undefined when there are no more.
 */
export async function compareRows(
  db: Db,
  { fleet, backend, place, clock }: Hold,
  { round, cursor, began_at }: SweepRow,
  asked: { state: 'running' | 'suspended'; checkpoints: boolean; max: number },
): Promise<{ compared: Compared[]; last: string | undefined }> {
  // Not `exists`: to look for a page of them, the planner would rather read all that was ever seen.
  const wasSeen = (kind: SightingRow['kind'], ref: RawBuilder<unknown>, and = sql``) => sql`coalesce((
        select true from sandman.sightings where sightings.fleet = ${fleet} and sightings.backend = ${backend}
          and sightings.place = ${place} and sightings.kind = ${kind} and sightings.ref = ${ref} ${and}), false)`
  const seen = (kind: SightingRow['kind'], ref: RawBuilder<unknown>) =>
    wasSeen(kind, ref, sql`and sightings.round = ${round}`)
  const { rows } = await sql<{ visited: number; last: string | null; compared: Compared[] | null }>`
    /* compare_rows */ with page as (
      select id, state, provider_ref, state_changed_at, fence, expires_at,
        (select checkpoints.provider_ref from sandman.checkpoints where checkpoints.id = sandboxes.checkpoint_id) as checkpoint_ref
      from sandman.sandboxes
      where fleet = ${fleet} and backend = ${backend} and state = ${asked.state} and state <> 'gone' and id > ${cursor ?? ''}
      order by id limit ${asked.max}
    ), compared as materialized (
      select id, state, provider_ref as ref, checkpoint_ref as "checkpointRef",
        case when not ${seen('instance', sql`page.provider_ref`)} then 'instance'
             when ${asked.checkpoints} and checkpoint_ref is not null and not ${seen('checkpoint', sql`page.checkpoint_ref`)}
             then 'checkpoint' end as lacks,
        exists (select from sandman.findings where findings.fleet = ${fleet} and findings.backend = ${backend}
          and findings.place = ${place} and findings.acted_at is null and (findings.kind, findings.ref) in
            (('instance_missing', page.provider_ref), ('checkpoint_missing', page.checkpoint_ref))) as "isSuspected",
        (expires_at is null or expires_at > ${dbNow(clock)})
          and (fence > 0 or ${wasSeen('instance', sql`page.provider_ref`)}) as "isExpected"
      from page
      where provider_ref is not null and state_changed_at < ${began_at}::timestamptz
    )
    select (select count(*) from page) as visited, (select max(id) from page) as last,
      (select jsonb_agg(to_jsonb(compared) order by id) from compared where lacks is not null or "isExpected") as compared`.execute(
    db,
  )
  const { visited, last, compared } = rows[0] as (typeof rows)[number]
  return { compared: compared ?? [], last: visited < asked.max ? undefined : (last as string) }
}

/** Whether this database has, or ever had, a sandbox of this fleet. */
export async function hasSandboxes(db: Db, { fleet }: Pick<Hold, 'fleet'>): Promise<boolean> {
  const { rows } = await sql`select from sandman.sandboxes where fleet = ${fleet} limit 1`.execute(db)
  return rows.length > 0
}

export type Unowned = { ref: string; sandboxId: string; why: string }

/**
 * Of instances that a list has shown, those that no sandbox has: neither one that rests with it, nor one that is on its way,
 * because that may be making it, or taking it over.
 */
export async function findUnownedInstances(
  db: Db,
  { fleet, backend }: Pick<Hold, 'fleet' | 'backend'>,
  items: readonly { ref: string; sandboxId: string }[],
): Promise<Unowned[]> {
  const { rows } = await sql<Unowned>`
    select given.ref, given.sandbox_id as "sandboxId", case
      when sandboxes.id is null then 'this database has no sandbox ' || given.sandbox_id
      when sandboxes.state = 'gone' then format('sandbox %s is gone: %s', sandboxes.id, gone_reason)
      else format('sandbox %s is %s as %s', sandboxes.id, sandboxes.state, sandboxes.provider_ref) end as why
    from unnest(${items.map(({ ref }) => ref)}::text[], ${items.map(({ sandboxId }) => sandboxId)}::text[]) as given (ref, sandbox_id)
    left join sandman.sandboxes on sandboxes.id = given.sandbox_id
    where (sandboxes.id is null or sandboxes.fleet = ${fleet} and sandboxes.operation_id is null)
      and not exists (select from sandman.sandboxes as owner
        where owner.backend = ${backend} and owner.provider_ref = given.ref and owner.state <> 'gone')
      and not exists (select from sandman.sandboxes as adopter where adopter.fleet = ${fleet} and adopter.state = 'provisioning'
        and adopter.backend = ${backend} and adopter.spec -> 'adopt' ->> 'ref' = given.ref)`.execute(db)
  return rows
}

/**
 * Of checkpoints that a list has shown, those that nothing rests on and nobody was promised. By their names and not by whom they are
 * labelled with: who was taken over has another id than it was made with. Those of a sandbox that is gone may be all that is left of
 * it, also if they were missing for a while, and are kept for as long as it would have been kept asleep.
 */
export async function findUnownedCheckpoints(
  db: Db,
  { fleet, backend, clock }: Pick<Hold, 'fleet' | 'backend' | 'clock'>,
  items: readonly { ref: string; sandboxId: string }[],
  { retentionMs, remainsMs }: { retentionMs: number | undefined; remainsMs: number },
): Promise<Unowned[]> {
  const { rows } = await sql<Unowned>`
    select given.ref, given.sandbox_id as "sandboxId", case
      when labelled.id is null then 'this database has no sandbox ' || given.sandbox_id
      else format('sandbox %s is %s, and nothing rests on it', labelled.id, labelled.state) end as why
    from unnest(${items.map(({ ref }) => ref)}::text[], ${items.map(({ sandboxId }) => sandboxId)}::text[]) as given (ref, sandbox_id)
    left join sandman.sandboxes as labelled on labelled.id = given.sandbox_id
    where (labelled.id is null or labelled.fleet = ${fleet} and labelled.operation_id is null)
      -- Who is being taken over may rest on any of them.
      and not exists (select from sandman.sandboxes as adopter where adopter.fleet = ${fleet} and adopter.state = 'provisioning'
        and adopter.backend = ${backend} and adopter.spec ? 'adopt')
      and not exists (
        select from sandman.checkpoints as kept join sandman.sandboxes as owner on owner.id = kept.sandbox_id
        where kept.provider_ref = given.ref and kept.status <> 'deleted' and owner.backend = ${backend} and (
          owner.fleet <> ${fleet} or owner.operation_id is not null or owner.checkpoint_id = kept.id
          or exists (select from sandman.sandboxes as made where made.spec ->> 'from' = kept.id and made.state <> 'gone')
          or case owner.state when 'gone'
            then coalesce(gone_at + make_interval(secs => coalesce(retention_ms, ${retentionMs ?? null}::bigint,
              case when ${IS_PROMISED} then null else ${remainsMs}::bigint end)::float8 / 1000) > ${dbNow(clock)}, true)
            else ${IS_PROMISED} end))`.execute(db)
  return rows
}
