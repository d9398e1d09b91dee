import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimChecks } from '../../src/db/checks.ts'
import { checkInvariants } from '../../src/jobs/check.ts'
import { HOUSEKEEPING } from '../../src/jobs/housekeeping.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { ledgerOn } from '../support/ledger.ts'

const clock = stoppedClock('2026-01-01T00:00:00Z')
let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database?.drop())

async function spawnSome(fleet: string, count: number): Promise<string[]> {
  const ledger = ledgerOn(database.db, { fleet, clock })
  const ids: string[] = []
  for (let nth = 0; nth < count; nth++) ids.push((await ledger.spawn()).sandbox.id)
  return ids
}

function look(fleet: string, events: RecordedEvents, bounds: Partial<typeof HOUSEKEEPING> = {}): Promise<void> {
  const deps = { db: database.db, fleet, clock, events, housekeeping: { ...HOUSEKEEPING, ...bounds } }
  return checkInvariants(deps, new AbortController().signal)
}

test('every sandbox comes up in its turn, and then from the beginning again', async () => {
  const ids = await spawnSome('turns', 5)
  await spawnSome('turnstile', 2)
  const claim = () => claimChecks(database.db, { fleet: 'turns', max: 2, clock })
  expect(await claim()).toEqual({ sandboxIds: ids.slice(0, 2), isEnd: false })
  expect(await claim()).toEqual({ sandboxIds: ids.slice(2, 4), isEnd: false })
  expect(await claim()).toEqual({ sandboxIds: ids.slice(4), isEnd: true })
  expect(await claim()).toEqual({ sandboxIds: ids.slice(0, 2), isEnd: false })
})

test('what is violated is said once, is known until it is mended, and said again if it comes back', async () => {
  const [id] = await spawnSome('broken', 3)
  const events = new RecordedEvents()
  await look('broken', events, { checkBatch: 2 })
  expect(events.happened).toEqual([{ name: 'invariant.checked', fields: { sandboxes: 3 } }])

  const set = (waiting: number) =>
    sql`update sandman.sandboxes set waiting = ${waiting} where id = ${id}`.execute(database.db)
  // As if somebody had dropped what keeps it true.
  await sql`alter table sandman.sandboxes disable trigger user`.execute(database.db)
  await set(1)
  await look('broken', events)
  await look('broken', events)
  expect(events.count('invariant.violated')).toBe(1)
  const { fields } = await events.until('invariant.violated')
  expect(fields).toMatchObject({ invariant: 'everything_ends', sandboxId: id })
  const known = database.db.selectFrom('violations').selectAll().where('fleet', '=', 'broken')
  expect(await known.execute()).toMatchObject([{ sandbox_id: id, invariant: 'everything_ends' }])

  await set(0)
  await look('broken', events)
  expect(await known.execute()).toEqual([])
  await set(1)
  await look('broken', events)
  expect(events.count('invariant.violated')).toBe(2)
})

test('what is wrong with one that is gone for long is known until it is mended, and whoever is well is left alone', async () => {
  const fleet = 'long-gone'
  const ledger = ledgerOn(database.db, { fleet, clock })
  const [broken, well] = [await ledger.at('gone'), await ledger.at('gone')]
  const events = new RecordedEvents()
  const known = database.db.selectFrom('violations').select('sandbox_id').where('fleet', '=', fleet).distinct()
  const claim = async () => (await claimChecks(database.db, { fleet, max: 10, clock })).sandboxIds
  const set = (waiting: number) =>
    sql`update sandman.sandboxes set waiting = ${waiting} where id = ${broken.id}`.execute(database.db)
  await sql`alter table sandman.sandboxes disable trigger user, drop constraint sandboxes_line_is_behind_an_operation`.execute(
    database.db,
  )
  await set(1)
  expect(await claim()).toEqual([broken.id, well.id])
  await look(fleet, events)
  expect(await known.execute()).toEqual([{ sandbox_id: broken.id }])

  clock.advance(2 * 86_400_000)
  expect(await claim()).toEqual([broken.id])
  await look(fleet, events)
  expect(await known.execute()).toEqual([{ sandbox_id: broken.id }])
  await set(0)
  await look(fleet, events)
  expect(await known.execute()).toEqual([])
  expect(await claim()).toEqual([])
})
