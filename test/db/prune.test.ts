import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { pruneOutput } from '../../src/db/prune.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'

const MIB = 1024 * 1024
const DAY_MS = 86_400_000

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/** A fleet with executions that ended long ago, in this order, each with so many pieces of output of so many bytes. */
async function fleetWith(name: string, ...executions: { pieces: number; bytes: number }[]) {
  const { db } = database
  const fleet = `prune-${name}`
  const { id: sandboxId } = await ledgerOn(db, { fleet, clock }).at('running')
  const ids: string[] = []
  for (const { pieces, bytes } of executions) {
    const { rows } = await sql<{ id: string }>`
      with execution as (
        insert into sandman.executions (id, fleet, sandbox_id, status, reason, exit_code, incarnation, output_bytes, output_bytes_max,
          created_at, started_at, ended_at)
        select sandman.make_id('exec', now()), ${fleet}, ${sandboxId}, 'succeeded', 'completed', 0, '1', ${pieces * bytes}::bigint,
          ${1024 * MIB}::bigint, now() - interval '50 days', now() - interval '50 days', now() - interval '40 days'
        returning id
      ), piece as (
        insert into sandman.output (execution_id, from_byte, bytes, at)
        select id, n * ${bytes}::bigint, repeat('x', ${bytes}::int)::bytea, now() - interval '40 days'
        from execution, generate_series(0, ${pieces - 1}::int) as n
      )
      select id from execution`.execute(db)
    ids.push(rows[0]?.id as string)
  }
  return {
    prune: (max = 100) => pruneOutput(db, { fleet, olderThanMs: 30 * DAY_MS, max, clock }),
    /** How many pieces are left of each. */
    left: () =>
      Promise.all(
        ids.map(async (id) => {
          const { rows } = await sql`select from sandman.output where execution_id = ${id}`.execute(db)
          return rows.length
        }),
      ),
  }
}

test('an output of any size is forgotten in parts, and what is behind it when it is empty', async () => {
  const { prune, left } = await fleetWith(
    'large',
    { pieces: 2, bytes: 10 },
    { pieces: 4, bytes: 40 * MIB },
    { pieces: 1, bytes: 10 },
  )
  expect(await prune()).toEqual({ forgotten: 1, isEnd: false })
  expect(await left()).toEqual([0, 2, 1])
  expect(await prune()).toEqual({ forgotten: 1, isEnd: false })
  expect(await left()).toEqual([0, 0, 1])
  expect(await prune()).toEqual({ forgotten: 1, isEnd: true })
  expect(await left()).toEqual([0, 0, 0])
  expect(await prune()).toEqual({ forgotten: 0, isEnd: true })
})

test('of an output in many small pieces no more are forgotten at once than a statement can', async () => {
  const { prune, left } = await fleetWith('small', { pieces: 12_000, bytes: 1 })
  expect(await prune()).toEqual({ forgotten: 0, isEnd: false })
  expect(await left()).toEqual([2_000])
  expect(await prune()).toEqual({ forgotten: 1, isEnd: true })
  expect(await left()).toEqual([0])
})

test('executions without output are gone past, a page at a time', async () => {
  const { prune } = await fleetWith('none', { pieces: 0, bytes: 1 }, { pieces: 0, bytes: 1 }, { pieces: 1, bytes: 1 })
  expect(await prune(2)).toEqual({ forgotten: 2, isEnd: false })
  expect(await prune(2)).toEqual({ forgotten: 1, isEnd: true })
})
