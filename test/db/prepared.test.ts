import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findYoung } from '../../src/db/checkpoints.ts'
import { listNewestEvents } from '../../src/db/events.ts'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import { statement } from '../../src/db/statement.ts'
import { takeSweep } from '../../src/db/sweeps.ts'
import { Events } from '../../src/events.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type Ledger, ledgerOn } from '../support/ledger.ts'

let database: TestDatabase
/** One connection, so that what it has prepared can be looked at. */
let single: DbHandle
let ledger: Ledger

beforeAll(async () => {
  database = await createDatabase()
  single = openDb({ databaseUrl: database.url, applicationName: 'single', events: new Events(), connectionsMax: 1 })
  ledger = ledgerOn(single.db, { fleet: 'f', clock: stoppedClock('2026-03-01T12:00:00Z') })
})
afterAll(async () => {
  await single.close()
  await database.drop()
})

const prepared = async (): Promise<string[]> => {
  const { rows } = await sql<{ name: string }>`select name from pg_prepared_statements order by name`.execute(single.db)
  return rows.map(({ name }) => name.split(' ')[0] as string)
}

test('a connection plans each statement of the ledger once, whatever is asked', async () => {
  for (const state of ['running', 'suspended', 'gone'] as const) await ledger.at(state)
  const { id } = await ledger.at('running')
  for (const kind of ['snapshot', 'pause', 'resume', 'destroy'] as const) {
    await ledger.ask(id, kind, { idempotencyKey: kind, options: { name: kind } })
  }
  await ledger.drain(id)
  await ledger.expectInvariants()
  expect(await prepared()).toEqual(['find_violations', 'request', 'request_spawn', 'settle', 'take'])
})

test('a migration that adds a column breaks nobody who has planned before it', async () => {
  const { id } = await ledger.at('running')
  const clock = stoppedClock('2026-03-01T12:00:00Z')
  const place = { fleet: 'f', backend: 'test', place: 'here', takenBy: 'one', holdMs: 0, clock }
  const read = async () => [
    await takeSweep(single.db, place, { roundMs: 1 }),
    (await findYoung(single.db, { ...place, max: 9 })).length,
    (await listNewestEvents(single.db, id, 9)).length,
  ]
  await read()
  await database.pool.query(`
    alter table sandman.sandboxes add column shoe_size integer;
    alter table sandman.operations add column shoe_size integer;
    alter table sandman.checkpoints add column shoe_size integer;
    alter table sandman.events add column shoe_size integer;
    alter table sandman.sweeps add column shoe_size integer`)
  await ledger.ask(id, 'pause')
  await ledger.drain(id)
  expect(await ledger.sandbox(id)).toMatchObject({ state: 'suspended', shoe_size: null })
  expect(await read()).toEqual([expect.objectContaining({ shoe_size: null }), 0, 4])
  await ledger.expectInvariants()
})

test('a statement is made of its texts and parts as they are, and keeps nothing of the values that it had before', async () => {
  const subtract = async (from: unknown, what: unknown): Promise<unknown> => {
    const { rows } = await statement<{ is: number }>`select ${from}::int - ${what}::int as is`.execute(single.db)
    return rows[0]?.is
  }
  const twice = (value: unknown) => sql`(${value}::int * 2)`
  expect([await subtract(5, 3), await subtract(3, 5)]).toEqual([2, -2])
  expect([await subtract(twice(5), 3), await subtract(3, twice(5)), await subtract(twice(3), 5)]).toEqual([7, -7, 1])
  expect([await subtract(sql`5`, 3), await subtract(3, sql`5`)]).toEqual([2, -2])
  expect(await subtract(twice(twice(5)), twice(sql`1`))).toBe(18)
  await expect(subtract(sql.ref('is'), 1)).rejects.toThrow('cannot be part of a statement')
})
