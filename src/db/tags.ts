import { type RawBuilder, sql } from 'kysely'
import { ID_DIGITS, ID_PREFIXES } from '../sandbox/ids.ts'
import type { State } from '../sandbox/states.ts'

/** Everything that has to be true of a sandbox. */
export type Filter = {
  state?: State | undefined
  backend?: string | undefined
  /** The beginning of its id. */
  idPrefix?: string | undefined
  /** Plain values of its metadata, compared as text. */
  metadata?: Record<string, string | number | boolean> | undefined
}

/** Candidates that one page looks at. Filters that hardly ever meet would otherwise be read to their end. */
export const CANDIDATES_MAX = 5_000

const ID_BEGINS = `${ID_PREFIXES.sandbox}_`
const ID_LENGTH = ID_BEGINS.length + ID_DIGITS

/**
 * The next sandboxes for which all of it is true, as `walk (id, is_found)`, the newest first: `max` at most. One that was not found
 * is the last candidate, when there were too many.
 *
 * Every part of a filter is an index in the order of ids. From a candidate of the first, each of the others is asked for its next
 * one from there on, and whoever has none there takes all of them further. So what is read is what the rarest part has, twice at
 * most, whichever that is and whatever the planner believes of it.
 */
export function walk({ fleet, before, max, ...filter }: Filter & Page): RawBuilder<unknown> {
  const [first, ...others] = partsOf(fleet, filter)
  const { lowest, highest } = rangeOf(filter.idPrefix)
  const atMost = (part: Part, at: RawBuilder<unknown>) => lastOf(part, sql`<=`, at, lowest)
  const below = (part: Part, at: RawBuilder<unknown>) => lastOf(part, sql`<`, at, lowest)
  const start = before === undefined || before > highest ? atMost(first, sql`${highest}`) : below(first, sql`${before}`)
  // Each goes on from where the one before it came to; null, and with it the end, when one has no more.
  const agreed = (candidate: RawBuilder<unknown>) => others.reduce((at, part) => atMost(part, at), candidate)
  // `offset 0`, or they are asked anew wherever the answer is used.
  return sql`
    with recursive candidate (id, agreed, found, looked) as (
      select began.id, asked.agreed, coalesce((asked.agreed = began.id)::int, 0), 1
      from (select ${start} as id offset 0) as began, lateral (select ${agreed(sql`began.id`)} as agreed offset 0) as asked
      where began.id is not null
      union all
      select next.id, asked.agreed, candidate.found + coalesce((asked.agreed = next.id)::int, 0), candidate.looked + 1
      from candidate,
        lateral (select case when candidate.agreed = candidate.id then ${below(first, sql`candidate.id`)}
                             else ${atMost(first, sql`candidate.agreed`)} end as id offset 0) as next,
        lateral (select ${agreed(sql`next.id`)} as agreed offset 0) as asked
      where candidate.agreed is not null and next.id is not null
        and candidate.found < ${max} and candidate.looked < ${CANDIDATES_MAX}
    ), walk as (
      select id, agreed is not distinct from id as is_found from candidate
      where agreed = id or agreed is not null and looked = ${CANDIDATES_MAX}
    )`
}

type Page = { fleet: string; before?: string | undefined; max: number }

/** An index whose last column is the id of a sandbox, and what the ones before it have to be. */
type Part = { table: string; columns: readonly string[]; are: readonly RawBuilder<unknown>[]; id: string }

function partsOf(fleet: string, { state, backend, metadata = {} }: Filter): [Part, ...Part[]] {
  const [first = rows({ fleet }), ...others] = [
    ...Object.entries(metadata).map(([key, value]) => tag(fleet, `metadata.${key}`, value)),
    ...(backend === undefined ? [] : [tag(fleet, 'backend', backend)]),
    ...(state === undefined ? [] : [rows({ fleet, state })]),
  ]
  return [first, ...others]
}

function tag(fleet: string, key: string, value: string | number | boolean): Part {
  // As Postgres writes a JSON value as text, which for numbers is not always as JavaScript does.
  const written = sql`(${JSON.stringify(value)}::jsonb #>> '{}')`
  const columns = ['fleet', 'key', 'value']
  return { table: 'tags', columns, are: [sql`${fleet}`, sql`${key}`, written], id: 'sandbox_id' }
}

function rows(known: Record<string, string>): Part {
  const are = Object.values(known).map((value) => sql`${value}`)
  return { table: 'sandboxes', columns: Object.keys(known), are, id: 'id' }
}

/**
 * The largest id in an index from `lowest` up to another one, or null. Whole rows are compared, and not each column with its value:
 * of an index of ids the planner would otherwise believe that it is walked sooner, which it is not where those it looks for are
 * all young, or all old.
 */
function lastOf(
  part: Part,
  compares: RawBuilder<unknown>,
  at: RawBuilder<unknown>,
  lowest: string,
): RawBuilder<unknown> {
  const { table, id, are } = part
  const columns = [...part.columns, id].map((column) => sql.ref(column))
  const row = sql`(${sql.join(columns)})`
  return sql`(select ${sql.ref(id)} from ${sql.table(`sandman.${table}`)}
    where ${row} ${compares} (${sql.join([...are, at])}) and ${row} >= (${sql.join([...are, lowest])})
    order by ${sql.join(columns.map((column) => sql`${column} desc`))} limit 1)`
}

/** All ids that begin so, as a range, which an index knows in every collation: ids are equally long, of digits and small letters. */
function rangeOf(prefix = ID_BEGINS): { lowest: string; highest: string } {
  return { lowest: prefix.padEnd(ID_LENGTH, '0'), highest: prefix.padEnd(ID_LENGTH, 'f') }
}
