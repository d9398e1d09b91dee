import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'

type Asked = { fleet: string; olderThanMs: number; max: number; clock: Clock }

/** How many were forgotten. `isEnd`: nothing is left that is as old. */
export type Pruned = { forgotten: number; isEnd: boolean }

/**
 * Forgets events of a fleet that are older than this, at most `max` looked at. The last state change of a
 * sandbox is kept for ever: what is true now can always be explained. Goes on where it stopped, behind what it has kept; what was
 * kept goes with the next of its sandbox that is forgotten, so that a history has a beginning and no gaps.
 */
export async function pruneEvents(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<Pruned> {
  const before = sql`${dbNow(clock)} - ${interval(olderThanMs)}`
  return pruning(db, async (transaction) => {
    const { rows } = await sql<{ forgotten: number; looked: number }>`
      with reached as (
        select at, id::bigint as id from sandman.prunings where fleet = ${fleet} and what = 'events' for update
      ), page as materialized (
        select events.id, events.at, events.sandbox_id from sandman.events
        where events.at < ${before}
          and (events.at, events.id) > (coalesce((select at from reached), '-infinity'), coalesce((select id from reached), 0))
        order by events.at, events.id limit ${max}
      ), old as (
        select page.sandbox_id, max(page.id) as id from page join sandman.sandboxes on sandboxes.id = page.sandbox_id
        where sandboxes.fleet = ${fleet} group by page.sandbox_id
      ), pruned as (
        delete from sandman.events using old
        where events.sandbox_id = old.sandbox_id and events.id <= old.id and events.at < ${before} and (events.to_state is null or exists (
          select from sandman.events as later
          where later.sandbox_id = events.sandbox_id and later.id > events.id and later.to_state is not null))
        returning events.id
      ), remembered as (
        insert into sandman.prunings (fleet, what, at, id)
        select ${fleet}, 'events', at, id::text from page order by at desc, id desc limit 1
        on conflict (fleet, what) do update set at = excluded.at, id = excluded.id
      )
      select (select count(*) from pruned) as forgotten, (select count(*) from page) as looked`.execute(transaction)
    const { forgotten, looked } = rows[0] as (typeof rows)[number]
    return { forgotten, isEnd: looked < max }
  })
}

/** As much of the output, and as many pieces of it, as one statement deletes: far less than it has the time for. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const PIECES_MAX = 10_000

type Ended = { id: string; endedAt: string; firstByte: number; bytes: number }

/**
 * Forgets the output of a fleet's executions that ended longer ago than this, of `max` of them at most, in the order of their ends.
 * One may have more than a statement can delete: then a part of it goes, and the next call goes on there.
 */
export async function pruneOutput(db: Db, asked: Asked): Promise<Pruned> {
  return pruning(db, async (transaction) => {
    const ended = await endedSince(transaction, asked)
    if (ended.length === 0) return { forgotten: 0, isEnd: true }
    await deletePieces(transaction, ended)
    const forgotten = await passEmpty(transaction, asked.fleet, ended)
    return { forgotten, isEnd: forgotten === ended.length && ended.length < asked.max }
  })
}

/** The next executions behind the last whose output was forgotten, with what is left of it. */
async function endedSince(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<Ended[]> {
  const { rows } = await sql<Ended>`
    with reached as (
      select at, id from sandman.prunings where fleet = ${fleet} and what = 'output' for update
    ), page as materialized (
      select executions.id, ended_at, output_bytes from sandman.executions
      where fleet = ${fleet} and ended_at is not null and ended_at < ${dbNow(clock)} - ${interval(olderThanMs)}
        and (ended_at, executions.id) > (coalesce((select at from reached), '-infinity'), coalesce((select id from reached), ''))
      order by ended_at, executions.id limit ${max}
    )
    select id, ended_at::text as "endedAt", coalesce(first, output_bytes) as "firstByte", output_bytes - coalesce(first, output_bytes) as bytes
    from page, lateral (select min(from_byte) as first from sandman.output where execution_id = page.id) as piece
    order by ended_at, id`.execute(db)
  return rows
}

async function deletePieces(db: Db, ended: readonly Ended[]): Promise<void> {
  const given: { id: string; until: number }[] = []
  let room = OUTPUT_BYTES_MAX
  for (const { id, firstByte, bytes } of ended) {
    if (room <= 0) break
    if (bytes > 0) given.push({ id, until: firstByte + Math.min(bytes, room) })
    room -= bytes
  }
  await sql`
    with piece as materialized (
      select id, from_byte
      from unnest(${given.map(({ id }) => id)}::text[], ${given.map(({ until }) => until)}::bigint[]) as given (id, until),
        lateral (select from_byte from sandman.output where execution_id = given.id and from_byte < given.until
          order by from_byte limit ${PIECES_MAX}) as found
      limit ${PIECES_MAX}
    )
    delete from sandman.output using piece where output.execution_id = piece.id and output.from_byte = piece.from_byte`.execute(
    db,
  )
}

/** Goes on behind those of which nothing is left, up to the first of which something is. Returns how many that are. */
async function passEmpty(db: Db, fleet: string, ended: readonly Ended[]): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select id from unnest(${ended.map(({ id }) => id)}::text[]) with ordinality as given (id, nth)
    where exists (select from sandman.output where execution_id = given.id) order by nth limit 1`.execute(db)
  const full = ended.findIndex(({ id }) => id === rows[0]?.id)
  const empty = full < 0 ? ended : ended.slice(0, full)
  const last = empty.at(-1)
  if (!last) return 0
  await sql`insert into sandman.prunings (fleet, what, at, id) values (${fleet}, 'output', ${last.endedAt}::timestamptz, ${last.id})
    on conflict (fleet, what) do update set at = excluded.at, id = excluded.id`.execute(db)
  return empty.length
}

/** Forgets idempotency keys: who repeats a request after so long asks anew. */
export async function pruneKeys(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<Pruned> {
  return pruning(db, async (transaction) => {
    const { numAffectedRows } = await sql`
      delete from sandman.idempotency_keys where fleet = ${fleet} and key in (
        select key from sandman.idempotency_keys
        where fleet = ${fleet} and created_at < ${dbNow(clock)} - ${interval(olderThanMs)}
        order by created_at limit ${max})`.execute(transaction)
    return upTo(max, numAffectedRows)
  })
}

/** Forgets what the sweeper has found and done; the events of the sandboxes tell it for as long as they are kept. */
export async function pruneFindings(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<Pruned> {
  const { numAffectedRows } = await sql`
    delete from sandman.findings where (fleet, backend, kind, ref) in (
      select fleet, backend, kind, ref from sandman.findings
      where fleet = ${fleet} and acted_at < ${dbNow(clock)} - ${interval(olderThanMs)}
      order by acted_at limit ${max})`.execute(db)
  return upTo(max, numAffectedRows)
}

/** Of a page in which everything is forgotten. */
export function upTo(max: number, rows = 0n): Pruned {
  return { forgotten: Number(rows), isEnd: rows < max }
}

async function pruning<T>(db: Db, work: (transaction: Db) => Promise<T>): Promise<T> {
  return db.transaction().execute(async (transaction) => {
    await sql`set local sandman.pruning = 'on'`.execute(transaction)
    return work(transaction)
  })
}
