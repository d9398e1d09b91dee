import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeRunning } from '../../bench/rows.ts'
import { runningClock as clock } from '../../src/clock.ts'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import { settleFree } from '../../src/db/settle.ts'
import { takeFree } from '../../src/db/take.ts'
import { Events } from '../../src/events.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { endingOf, ledgerOn } from '../support/ledger.ts'

const AT_WORK = 300
const MEASURED = 10
/** Of all tables together: statements and checks look for one row each, a few dozen in all. To look at half of the others is more. */
const READS_MAX = 150

let database: TestDatabase
/** One connection for all of it: each writes down what it has read when it likes, unless it is told to. */
let own: DbHandle
beforeAll(async () => {
  database = await createDatabase()
  own = openDb({ databaseUrl: database.url, applicationName: 'reader', events: new Events(), connectionsMax: 1 })
})
afterAll(async () => {
  await own.close()
  await database.drop()
})

/** Rows that were found through any index, or read in passing. */
async function reads(): Promise<number> {
  await own.pool.query('select pg_stat_force_next_flush()')
  await own.pool.query('select 1') // it is written down when the next one begins
  const { rows } = await own.pool.query<{ reads: number }>(
    `select (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'sandman')::int
      + (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = 'sandman')::int as reads`,
  )
  return rows[0]?.reads as number
}

test('what an operation reads does not grow with how many others are under way', async () => {
  const ledger = ledgerOn(own.db, { fleet: 'busy', clock })
  const ids = await makeRunning(own.pool, { fleet: 'busy', count: AT_WORK + MEASURED })
  // As a fleet is most of the time when Postgres counts its rows: much has happened, and nobody is at work.
  await own.pool.query(`insert into sandman.operations (id, sandbox_id, kind, status, outcome, created_at, settled_at)
    select sandman.make_id('op', now()), id, 'resume', 'succeeded', 'already_done', now(), now()
    from sandman.sandboxes, generate_series(1, 20)`)
  await own.pool.query('vacuum analyze')
  for (const id of ids.slice(MEASURED)) await ledger.ask(id, 'pause')
  const before = await reads()
  for (const id of ids.slice(0, MEASURED)) {
    const { operation } = await ledger.ask(id, 'pause')
    const { attempt } = await ledger.begin(operation.id)
    const checkpoint = { kind: 'pause', providerRef: `checkpoint of ${id}` } as const
    await ledger.end(attempt, { status: 'succeeded', outcome: 'done', rest: { state: 'suspended', checkpoint } })
  }
  expect(((await reads()) - before) / MEASURED).toBeLessThan(READS_MAX)
})

test('nor does what several read that are taken, and settled, at once', async () => {
  const ledger = ledgerOn(own.db, { fleet: 'many', clock })
  const ids = await makeRunning(own.pool, { fleet: 'many', count: AT_WORK + MEASURED })
  await own.pool.query('vacuum analyze')
  const operationIds: string[] = []
  for (const id of ids) operationIds.push((await ledger.ask(id, 'pause')).operation.id)
  const before = await reads()
  const taken = await takeFree(own.db, { fleet: 'many', worker: 'worker', clock }, operationIds.slice(0, MEASURED))
  expect(taken.size).toBe(MEASURED)
  const attempted = [...taken.values()].map((each) => ({ attempt: each.attempt, ending: endingOf(each, 'works') }))
  expect((await settleFree(own.db, attempted, clock)).size).toBe(MEASURED)
  expect(((await reads()) - before) / MEASURED).toBeLessThan(READS_MAX)
})
