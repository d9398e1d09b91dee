import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { storable } from '../sandbox/failures.ts'
import { ID_PREFIXES } from '../sandbox/ids.ts'
import type { Violation } from './invariants.ts'
import { dbNow } from './now.ts'
import type { Db } from './pool.ts'

/** Whoever was gone for longer than this was looked at when it still changed, or soon afterwards. */
const GONE = sql`interval '1 day'`
/** Behind every id. */
const LAST_ID = `${ID_PREFIXES.sandbox}_g`
/** Violations that are kept of one fleet. More of them say nothing new. */
const KEPT_MAX = 1_000

/**
 * The next sandboxes to be looked at, in the order of their ids and then from the beginning again; whoever asks next gets the ones
 * behind them. `isEnd`: these were the last.
 */
export async function claimChecks(
  db: Db,
  { fleet, max, clock }: { fleet: string; max: number; clock: Clock },
): Promise<{ sandboxIds: string[]; isEnd: boolean }> {
  const { rows } = await sql<{ sandboxIds: string[]; visited: number }>`
    /* claim_checks */ with place as (
      select reached from sandman.checks where fleet = ${fleet} for update
    ), page as materialized (
      select id, state, gone_at from sandman.sandboxes
      where (fleet, id) > (${fleet}, coalesce((select reached from place), '')) and (fleet, id) <= (${fleet}, ${LAST_ID})
      order by fleet, id limit ${max}
    ), moved as (
      insert into sandman.checks (fleet, reached)
      select ${fleet}, case when count(*) < ${max} then '' else max(id) end from page
      on conflict (fleet) do update set reached = excluded.reached
    )
    select (select count(*) from page) as visited,
      array(select id from page where state <> 'gone' or gone_at > ${dbNow(clock)} - ${GONE}
        or exists (select from sandman.violations where violations.fleet = ${fleet} and sandbox_id = id) order by id) as "sandboxIds"`.execute(
    db,
  )
  const { sandboxIds, visited } = rows[0] as (typeof rows)[number]
  return { sandboxIds, isEnd: visited < max }
}

/** Writes down what was found of these sandboxes, and forgets what is not so any more. Returns what was not known. */
export async function recordViolations(
  db: Db,
  asked: { fleet: string; sandboxIds: readonly string[]; violations: readonly Violation[]; clock: Clock },
): Promise<Violation[]> {
  const { fleet, sandboxIds, clock } = asked
  // Each once: an invariant can be violated in several ways at once.
  const once = new Map(
    asked.violations.map((violation) => [`${violation.sandboxId} ${violation.invariant}`, violation]),
  )
  const found = [...once.values()].map((violation) => ({ ...violation, seen: storable(violation.seen) }))
  const { rows } = await sql<Violation>`
    with found as (
      select * from jsonb_to_recordset(${JSON.stringify(found)}::jsonb) as found (invariant text, "sandboxId" text, seen text)
    ), over as (
      delete from sandman.violations where fleet = ${fleet} and sandbox_id = any(${sandboxIds}::text[])
        and (sandbox_id, invariant) not in (select "sandboxId", invariant from found)
    )
    insert into sandman.violations (fleet, sandbox_id, invariant, seen, since)
    select ${fleet}, "sandboxId", invariant, seen, ${dbNow(clock)} from found
    where (select count(*) from sandman.violations where fleet = ${fleet}) < ${KEPT_MAX}
    order by "sandboxId", invariant
    on conflict (fleet, sandbox_id, invariant) do nothing
    returning invariant, sandbox_id as "sandboxId", seen`.execute(db)
  return rows
}

export async function countViolations(db: Db, fleet: string): Promise<{ invariant: string; count: number }[]> {
  const { rows } = await sql<{ invariant: string; count: number }>`
    /* count_violations */ select invariant, count(*) as count from sandman.violations where fleet = ${fleet} group by invariant`.execute(
    db,
  )
  return rows
}
