import { afterAll, beforeAll, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { createFleet, type Fleet } from '../../src/fleet/fleet.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'

const fleet = 'tagged'
let database: TestDatabase
let asking: Fleet
let spawn: (metadata: Record<string, unknown>, backend?: string) => Promise<string>
beforeAll(async () => {
  database = await createDatabase()
  asking = createFleet({ databaseUrl: database.url, fleet })
  const ledger = ledgerOn(database.db, { fleet, clock })
  spawn = async (metadata, backend = 'test') => (await ledger.spawn({ metadata, backend })).sandbox.id
})
afterAll(async () => {
  await asking?.close()
  await database?.drop()
})

async function found(filter: Parameters<Fleet['list']>[0]): Promise<string[]> {
  return (await asking.list(filter)).items.map(({ id }) => id)
}

test('a sandbox is found by each plain value of its metadata, and by all of them together', async () => {
  const id = await spawn({ owner: 'ada', port: 8080, public: true, 'a.b c': 'é"\\', tiny: 1e-7, huge: 1e21, empty: '' })
  await spawn({ owner: 'ada', port: 8081 })
  expect(await found({ metadata: { owner: 'ada', port: 8080 } })).toEqual([id])
  for (const metadata of [
    { port: '8080' },
    { public: true },
    { 'a.b c': 'é"\\' },
    { tiny: 1e-7 },
    { huge: 1e21 },
    { empty: '' },
  ])
    expect(await found({ metadata })).toEqual([id])
  expect(await found({ metadata: { owner: 'ad' } })).toEqual([])
  expect(await found({ metadata: { owner: 'ada', port: 8080, public: false } })).toEqual([])
})

test('what is nested, null, or longer than anybody searches for is kept, and not found', async () => {
  const id = await spawn({
    nested: { owner: 'eve' },
    list: ['eve'],
    nothing: null,
    long: 'x'.repeat(257),
    only: 'this',
  })
  expect(await found({ metadata: { only: 'this' } })).toEqual([id])
  const { rows } = await database.pool.query('select key from sandman.tags where sandbox_id = $1 order by key', [id])
  expect(rows).toEqual([{ key: 'backend' }, { key: 'metadata.only' }])
})

test('metadata of as many keys as there may be costs no more than sixty-four of them', async () => {
  const id = await spawn(Object.fromEntries(Array.from({ length: 1_000 }, (_, nth) => [`k${nth}`, nth])))
  const { rows } = await database.pool.query('select from sandman.tags where sandbox_id = $1', [id])
  expect(rows).toHaveLength(65)
})

test('metadata that begins like a backend is not taken for one', async () => {
  const id = await spawn({ backend: 'other' }, 'mine')
  expect(await found({ backend: 'other' })).toEqual([])
  expect(await found({ metadata: { backend: 'mine' } })).toEqual([])
  expect(await found({ backend: 'mine', metadata: { backend: 'other' } })).toEqual([id])
})

test('what an app has written on a sandbox never changes', async () => {
  const id = await spawn({ owner: 'bob' })
  const change = (metadata: object) =>
    database.pool.query('update sandman.sandboxes set metadata = $2 where id = $1', [id, metadata])
  await expect(change({ owner: 'eve' })).rejects.toMatchObject({ constraint: 'sandboxes_metadata_stays' })
  await change({ owner: 'bob' })
})

test.each([
  [{ id: 'sbx_0g' }, 'id'],
  [{ id: '%' }, 'id'],
  [{ id: `sbx_${'0'.repeat(27)}` }, 'id'],
  [{ metadata: { owner: null } }, 'metadata.owner'],
  [{ metadata: { owner: { nested: true } } }, 'metadata.owner'],
  [{ metadata: { owner: 'x'.repeat(257) } }, 'metadata.owner'],
  [{ metadata: { owner: '\0' } }, 'metadata.owner'],
  [{ metadata: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 } }, 'metadata'],
])('a list with %j is refused, and its field is named', async (filter, field) => {
  const refused = asking.list(filter as unknown as Parameters<Fleet['list']>[0])
  await expect(refused).rejects.toMatchObject({ code: 'request_invalid', details: { problems: [{ field }] } })
})
