import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { findYoung } from '../../src/db/checkpoints.ts'
import { findViolations } from '../../src/db/invariants.ts'
import { MIGRATIONS, migrate } from '../../src/db/migrate.ts'
import type { Sandbox } from '../../src/index.ts'
import { STATES } from '../../src/sandbox/states.ts'
import { endOf, textOf, type Working, work } from '../executions/setup.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'
import { type Column, columnsOf, migrateAsBefore, type Rows, readRows, writeRows } from '../support/older-schema.ts'
import { createWorld, type World } from '../support/world.ts'

/** Before it, there was nothing that could be lost. */
const OLDEST = '0002_ledger'
/** The first with executions that run, and the oldest whose workers may run beside those of this release. */
const EXECUTIONS = '0004_executions'
const OLDER = Object.keys(MIGRATIONS)
  .filter((name) => name >= OLDEST)
  .slice(0, -1)

let world: World
let source: TestDatabase
const databases: TestDatabase[] = []
let everything: Rows
/** What an agent goes on saying meanwhile. */
let talking: Working
/** Where each sandbox is to end that something is under way with, by what that is. */
const ends: Record<string, { id: string; state: string }> = {}

beforeAll(async () => {
  source = await createDatabase()
  world = await createWorld('redis', { databaseUrl: source.url })
})
afterAll(async () => {
  await world?.end()
  for (const database of [source, ...databases]) await database?.drop()
})

/** Sandboxes in every state: at rest by the hands of a worker, and in flight because there is none any more. */
async function fillWithAllThereIs(): Promise<void> {
  const worker = await world.startWorker()
  const [busy, paused, copied, doomed, lined, listening] = await Promise.all(
    Array.from({ length: 6 }, () => world.running({ metadata: { owner: 'ada' } })),
  )
  const [asleep, woken] = await Promise.all([world.suspended({ ttl: { retention: '7d' } }), world.suspended()])
  const { id: ended } = await world.running()
  await world.fleet.destroy(ended, { wait: '30s' })
  await world.fleet.snapshot(String(busy?.id), { wait: '30s', idempotencyKey: 'kept' })
  const done = await work(world, { sandbox: busy as Sandbox })
  done.agent.write('done\n')
  done.agent.exit()
  expect(await textOf(world, done.execution.id)).toBe('done\n')
  talking = await work(world, { sandbox: listening as Sandbox })
  talking.agent.write('before\n')
  await expect.poll(async () => (await world.fleet.execution(talking.execution.id)).execution.outputBytes).toBe(7)
  await worker.stop()

  const { fleet } = world
  const made = await fleet.spawn({ backend: 'test' })
  const begun = await fleet.spawn({ backend: 'test' })
  const pausing = await fleet.pause(String(paused?.id))
  const ids = {
    spawn: made.sandbox.id,
    'spawn that a worker had begun': begun.sandbox.id,
    'pause that a worker had begun': String(paused?.id),
    resume: woken.id,
    snapshot: String(copied?.id),
    kill: String(doomed?.id),
    'destroy behind a pause': String(lined?.id),
    execution: String(listening?.id),
    nothing: asleep.id,
  }
  await fleet.resume(ids.resume)
  await fleet.snapshot(ids.snapshot)
  await fleet.kill(ids.kill)
  await fleet.pause(ids['destroy behind a pause'])
  await fleet.destroy(ids['destroy behind a pause'])
  const ledger = ledgerOn(world.db, { fleet: world.place.fleet, clock })
  for (const { operation } of [begun, pausing]) await ledger.begin(operation.id, 'one that was killed')

  const state = { pause: 'suspended', kill: 'gone', destroy: 'gone', nothing: 'suspended' } as Record<string, string>
  for (const [what, id] of Object.entries(ids))
    ends[what] = { id, state: state[what.split(' ')[0] as string] ?? 'running' }
}

/** A database of that time, with as much of everything as it could hold. */
async function databaseOf(last: string): Promise<{ database: TestDatabase; columns: Column[]; rows: Rows }> {
  const database = await createDatabase({ migrated: false })
  databases.push(database)
  await migrateAsBefore(database.url, last)
  const columns = await columnsOf(database.pool)
  await writeRows(database.pool, columns, last < EXECUTIONS ? withoutExecutions(everything) : everything)
  return { database, columns, rows: await readRows(database.pool, columns) }
}

function withoutExecutions(rows: Rows): Rows {
  const without = (table: string) => (rows[table] ?? []).filter(({ execution_id }) => execution_id === null)
  return { ...rows, executions: [], events: without('events'), idempotency_keys: without('idempotency_keys') }
}

// What the others begin with.
test('a fleet of this release has sandboxes in every state', async () => {
  await fillWithAllThereIs()
  everything = await readRows(source.pool, await columnsOf(source.pool))
  expect(new Set(everything.sandboxes?.map(({ state }) => state))).toEqual(new Set(STATES))
})

/** What a migration adds to a row follows from what was in it: it is what this release would have written. */
async function whatFollows({ pool }: TestDatabase): Promise<Rows> {
  const follow = {
    sandboxes: ['id', 'state', 'suspended_at', 'retention_at', 'open_executions'],
    checkpoints: ['id', 'fleet'],
    executions: ['id', 'fleet'],
  } as Record<string, string[]>
  const columns = (await columnsOf(pool)).filter(({ table, name }) => follow[table]?.includes(name))
  const { sandboxes = [], ...rest } = await readRows(pool, columns)
  // Of one that was just being woken, nobody had written down since when it had slept.
  return { ...rest, sandboxes: sandboxes.filter(({ state }) => state !== 'resuming') }
}

describe.each(OLDER)('a database that was migrated up to %s', (last) => {
  test('keeps every row as it was, and everything in it is as it must always be', async () => {
    const { database, columns, rows } = await databaseOf(last)
    expect(rows.sandboxes).toHaveLength(everything.sandboxes?.length as number)
    expect(await migrate(database.url)).toEqual(Object.keys(MIGRATIONS).filter((name) => name > last))
    expect(await readRows(database.pool, columns)).toEqual(rows)
    expect(await findViolations(database.db, { fleet: world.place.fleet })).toEqual([])
    if (last >= EXECUTIONS) expect(await whatFollows(database)).toEqual(await whatFollows(source))
    const { rows: tagged } = await database.pool.query(
      `select count(distinct sandbox_id)::int as n from sandman.tags where key = 'backend'`,
    )
    expect(tagged).toEqual([{ n: rows.sandboxes?.length }])
  })
})

test('a worker of this release finishes what one of an older release had under way', async () => {
  const { database } = await databaseOf(EXECUTIONS)
  await migrate(database.url)
  const { provider, place } = world
  const upgraded = await createWorld('redis', { provider, fleet: place.fleet, databaseUrl: database.url })
  try {
    await upgraded.startWorker()
    for (const [what, { id, state }] of Object.entries(ends)) {
      const look = async () => {
        const { items: open } = await upgraded.fleet.operations(id)
        const under = open.filter(({ settledAt }) => settledAt === null).length
        return { state: (await upgraded.fleet.get(id)).state, under }
      }
      await expect.poll(look, { message: what }).toEqual({ state, under: 0 })
    }
    talking.agent.write('after\n')
    talking.agent.exit()
    expect(await textOf(upgraded, talking.execution.id)).toBe('before\nafter\n')
    expect(await endOf(upgraded, talking.execution)).toMatchObject({ status: 'succeeded' })
    await upgraded.expectInvariants()
  } finally {
    await upgraded.end()
  }
})

describe('a worker of an older release', () => {
  const compatible = OLDER.filter((name) => name >= EXECUTIONS)

  test('makes checkpoints that are looked at again by those of this one, and of what was there before so are the young', async () => {
    const { database } = await databaseOf('0008_guards')
    await migrate(database.url)
    const { fleet } = world.place
    const due = async () => {
      const { stoppedAt } = stoppedClock(new Date(Date.now() + 600_000).toISOString())
      const young = await findYoung(database.db, { fleet, backend: 'test', max: 100, clock: { stoppedAt } })
      return young.map(({ provider_ref }) => provider_ref)
    }
    const before = await due()
    expect(before).not.toEqual([])
    // As a release before wrote them: it knew of `verify_at`, and not who is to look then.
    await database.pool.query(`
      insert into sandman.checkpoints (id, fleet, sandbox_id, kind, status, provider_ref, created_at, verified_at, verify_at)
      select sandman.make_id('ckpt', now()), fleet, id, 'pause', 'ready', 'of an older release', now(), now(), now() + interval '1 minute'
      from sandman.sandboxes where state = 'running' limit 1`)
    expect((await due()).toSorted()).toEqual([...before, 'of an older release'].toSorted())
  })

  test.each(compatible)(
    'of %s finds every table and column that it knows, and has to fill in no other',
    async (last) => {
      const database = await createDatabase({ migrated: false })
      databases.push(database)
      await migrateAsBefore(database.url, last)
      const known = await columnsOf(database.pool)
      const now = await columnsOf(source.pool)
      const same = ({ table, name, type }: Column) => `${table}.${name} ${type}`
      expect(now.map(same)).toEqual(expect.arrayContaining(known.map(same)))
      const tables = new Set(known.map(({ table }) => table))
      const required = (all: Column[]) => all.filter((each) => each.required && tables.has(each.table)).map(same)
      expect(required(now)).toEqual(required(known))
    },
  )
})
