import { Kysely, PostgresDialect } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { recordLease } from '../../src/db/leases.ts'
import type { Db } from '../../src/db/pool.ts'
import type { Database } from '../../src/db/schema.ts'
import { touch } from '../../src/db/touch.ts'
import { type Change, Changes } from '../../src/fleet/changes.ts'
import { closePool, openPool } from '../../src/pg-pool.ts'
import { RecordedEvents } from '../support/events.ts'
import { type Gate, gate } from '../support/gate.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

/** Watching whose statements are counted; each waits at the gate of its turn, if it has one. */
function openChanges({ lookEveryMs = 5, turns = [] }: { lookEveryMs?: number; turns?: Gate[] } = {}) {
  let looks = 0
  const pool = openPool({ connectionString: database.url, max: 4 }, () => {})
  let turn = 0
  const connect = async () => {
    await turns[turn++]?.enter()
    return pool.connect()
  }
  const db: Db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: { connect, end: () => pool.end(), options: pool.options } }),
    log: ({ query }) => {
      if (query.sql.includes('find_marks')) looks++
    },
  }).withSchema('sandman')
  const changes = new Changes({ db, fleet: ledger.fleet, events: new RecordedEvents(), lookEveryMs })
  onTestFinished(async () => {
    for (const { open } of turns) open()
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
  const incarnation = String((await ledger.sandbox(one.id)).incarnation)
  const endsAt = new Date('2026-03-01T13:00:00Z')
  await recordLease(ledger.db, { id: one.id, incarnation }, { incarnation, endsAt }) // it has got more time
  expect((await next()).sandboxIds).toEqual([one.id])
  clock.advance(60_000)
  await touch(ledger.db, { ...ledger, id: one.id }) // it is in use
  expect((await next()).sandboxIds).toEqual([one.id])
})

test('tells that there is a new sandbox to whoever asks for that', async () => {
  const { changes } = openChanges()
  const { next } = await watch(changes, [], { newest: true })
  await ledger.spawn()
  expect(await next()).toEqual({ sandboxIds: [], isNewest: true })
})

test('needs one statement at a time for all who watch, and none when nobody does', async () => {
  const { changes, looks } = openChanges({ lookEveryMs: 20 })
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

test('does not hear a look of those who have left, whose answer comes late', async () => {
  const turns = Array.from({ length: 5 }, gate) as [Gate, Gate, Gate, Gate, Gate]
  const [begins, late, beginsAnew, next, afterThat] = turns
  const { changes } = openChanges({ turns })
  const [theirs, ours] = [await ledger.at('running'), await ledger.at('running')]
  begins.open()
  const { leave } = await watch(changes, [theirs.id])
  await late.entered(1)
  const left = leave()
  beginsAnew.open()
  const watcher = await watch(changes, [ours.id])
  const told = watcher.next()
  await next.entered(1)
  late.open()
  await left
  await ledger.ask(ours.id, 'pause')
  next.open()
  const missed = afterThat.entered(1).then(() => 'it was not told')
  expect(await Promise.race([told, missed])).toEqual({ sandboxIds: [ours.id], isNewest: false })
  await ledger.drain(ours.id)
})

test('ends with the fleet, and tells that to who watches', async () => {
  const { changes } = openChanges()
  const { next } = await watch(changes, [])
  const waiting = next()
  await Promise.all([expect(waiting).rejects.toMatchObject({ code: 'fleet_closed' }), changes.close()])
  const late = changes.watch({ sandboxIds: [], newest: false }, new AbortController().signal)
  await expect(late.next()).rejects.toMatchObject({ code: 'fleet_closed' })
})
