import { Kysely, PostgresDialect } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { Db } from '../../src/db/pool.ts'
import type { Database } from '../../src/db/schema.ts'
import { type Change, Changes } from '../../src/fleet/changes.ts'
import { closePool, openPool } from '../../src/pg-pool.ts'
import { RecordedEvents } from '../support/events.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
useLedger((given) => {
  ;({ database, ledger } = given)
})

/** Watching whose statements are counted. */
function openChanges(lookEveryMs = 5) {
  let looks = 0
  const pool = openPool({ connectionString: database.url, max: 4 }, () => {})
  const db: Db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool }),
    log: ({ query }) => {
      if (query.sql.includes('find_marks')) looks++
    },
  }).withSchema('sandman')
  const changes = new Changes({ db, fleet: ledger.fleet, events: new RecordedEvents(), lookEveryMs })
  onTestFinished(async () => {
    await changes.close()
    await closePool(pool)
  })
  return { changes, looks: () => looks }
}

/** One who watches, who has been told that it began, and tells what it is told. */
async function watch(changes: Changes, sandboxIds: string[], { newest = false } = {}) {
  const leaving = new AbortController()
  const told = changes.watch({ sandboxIds, newest }, leaving.signal)
  const next = async (): Promise<Change> => (await told.next()).value as Change
  expect(await next()).toEqual({ sandboxIds: [], isNewest: false })
  return {
    next,
    async leave() {
      leaving.abort(new Error('left'))
      await told.next().catch(() => {})
    },
  }
}

test('tells of everything that is seen of a sandbox, and of nothing else', async () => {
  const { changes } = openChanges()
  const [one, other] = [await ledger.at('running'), await ledger.at('running')]
  const { next } = await watch(changes, [one.id])

  const asked = await ledger.ask(one.id, 'pause')
  expect(await next()).toEqual({ sandboxIds: [one.id], isNewest: false })
  const taken = await ledger.begin(asked.operation.id) // a first attempt
  expect((await next()).sandboxIds).toEqual([one.id])
  await ledger.ask(one.id, 'resume') // somebody waits in line
  expect((await next()).sandboxIds).toEqual([one.id])
  const unwatched = next()
  await ledger.perform((await ledger.ask(other.id, 'kill')).operation.id)
  await ledger.spawn()
  await ledger.end(taken.attempt, {
    status: 'succeeded',
    outcome: 'done',
    rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef: 'pause' } },
  })
  expect(await unwatched).toEqual({ sandboxIds: [one.id], isNewest: false })
  await ledger.drain(one.id)
  expect((await next()).sandboxIds).toEqual([one.id])
  await ledger.execute(one.id)
  expect((await next()).sandboxIds).toEqual([one.id])
})

test('tells that there is a new sandbox to whoever asks for that', async () => {
  const { changes } = openChanges()
  const { next } = await watch(changes, [], { newest: true })
  await ledger.spawn()
  expect(await next()).toEqual({ sandboxIds: [], isNewest: true })
})

test('needs one statement at a time for all who watch, and none when nobody does', async () => {
  const { changes, looks } = openChanges(20)
  const sandboxes = await Promise.all(Array.from({ length: 10 }, () => ledger.at('running')))
  const ids = sandboxes.map(({ id }) => id)
  const watchers = await Promise.all(Array.from({ length: 50 }, () => watch(changes, ids)))
  expect(looks()).toBeLessThanOrEqual(2) // when the first came in, and for all the others

  const all = watchers.map(({ next }) => next())
  await ledger.ask(ids[3] as string, 'pause')
  for (const change of await Promise.all(all)) expect(change.sandboxIds).toEqual([ids[3]])

  for (const { leave } of watchers) await leave()
  const last = looks()
  await new Promise((resolve) => setTimeout(resolve, 200)) // ten times as long as it takes to look again
  expect(looks()).toBe(last)

  await watch(changes, ids) // and who comes back is told again
  expect(looks()).toBeGreaterThan(last)
  await ledger.drain(ids[3] as string)
})

test('ends with the fleet, and tells that to who watches', async () => {
  const { changes } = openChanges()
  const { next } = await watch(changes, [])
  const waiting = next()
  await Promise.all([expect(waiting).rejects.toMatchObject({ code: 'fleet_closed' }), changes.close()])
  const late = changes.watch({ sandboxIds: [], newest: false }, new AbortController().signal)
  await expect(late.next()).rejects.toMatchObject({ code: 'fleet_closed' })
})
