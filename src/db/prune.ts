import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'

type Asked = { fleet: string; olderThanMs: number; max: number; clock: Clock }

/**
 * Forgets events of a fleet that are older than this, at most `max` looked at, and says how many. The last state change of a
 * sandbox is kept for ever: what is true now can always be explained. Goes on where it stopped, behind what it has kept; what was
 * kept goes with the next of its sandbox that is forgotten, so that a history has a beginning and no gaps.
 */
export async function pruneEvents(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<number> {
  const before = sql`${dbNow(clock)} - ${interval(olderThanMs)}`
  return pruning(db, async (transaction) => {
    const { rows } = await sql<{ pruned: number }>`
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
      select count(*) as pruned from pruned`.execute(transaction)
    return rows[0]?.pruned ?? 0
  })
}

/** As much of the output as one statement deletes. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024

/**
 * Forgets the output of a fleet's executions that ended longer ago than this, of `max` executions and about as many bytes as one
 * may have at most, and says of how many.
 */
export async function pruneOutput(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<number> {
  return pruning(db, async (transaction) => {
    const { rows } = await sql<{ pruned: number }>`
      with reached as (
        select at, id from sandman.prunings where fleet = ${fleet} and what = 'output' for update
      ), old as (
        select executions.id, ended_at, output_bytes from sandman.executions
        where fleet = ${fleet} and ended_at is not null and ended_at < ${dbNow(clock)} - ${interval(olderThanMs)}
          and (ended_at, executions.id) > (coalesce((select at from reached), '-infinity'), coalesce((select id from reached), ''))
        order by ended_at, executions.id limit ${max}
      ), page as materialized (
        select * from (select *, sum(output_bytes) over (order by ended_at, id) - output_bytes as before from old) as added
        where before < ${OUTPUT_BYTES_MAX}
      ), pruned as (
        delete from sandman.output using page where output.execution_id = page.id
      ), remembered as (
        insert into sandman.prunings (fleet, what, at, id)
        select ${fleet}, 'output', ended_at, id from page order by ended_at desc, id desc limit 1
        on conflict (fleet, what) do update set at = excluded.at, id = excluded.id
      )
      select count(*) as pruned from page`.execute(transaction)
    return rows[0]?.pruned ?? 0
  })
}

/** Forgets idempotency keys: who repeats a request after so long asks anew. */
export async function pruneKeys(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<number> {
  return pruning(db, async (transaction) => {
    const { numAffectedRows } = await sql`
      delete from sandman.idempotency_keys where fleet = ${fleet} and key in (
        select key from sandman.idempotency_keys
        where fleet = ${fleet} and created_at < ${dbNow(clock)} - ${interval(olderThanMs)}
        order by created_at limit ${max})`.execute(transaction)
    return Number(numAffectedRows ?? 0)
  })
}

/** Forgets what the sweeper has found and done; the events of the sandboxes tell it for as long as they are kept. */
export async function pruneFindings(db: Db, { fleet, olderThanMs, max, clock }: Asked): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from sandman.findings where (fleet, backend, kind, ref) in (
      select fleet, backend, kind, ref from sandman.findings
      where fleet = ${fleet} and acted_at < ${dbNow(clock)} - ${interval(olderThanMs)}
      order by acted_at limit ${max})`.execute(db)
  return Number(numAffectedRows ?? 0)
}

async function pruning<T>(db: Db, work: (transaction: Db) => Promise<T>): Promise<T> {
  return db.transaction().execute(async (transaction) => {
    await sql`set local sandman.pruning = 'on'`.execute(transaction)
    return work(transaction)
  })
}
