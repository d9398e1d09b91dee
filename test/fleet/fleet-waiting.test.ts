import { getEventListeners } from 'node:events'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { announce, IDS_PER_NOTICE } from '../../src/db/announce.ts'
import { endExecution, startExecution } from '../../src/db/executions.ts'
import { type Db, explainDbError, openDb } from '../../src/db/pool.ts'
import type { Database } from '../../src/db/schema.ts'
import { appendOutput } from '../../src/db/streams.ts'
import { Events } from '../../src/events.ts'
import { Announcer } from '../../src/fleet/announcer.ts'
import { streamOutput } from '../../src/fleet/output.ts'
import { WaitingRoom } from '../../src/fleet/waiting-room.ts'
import { abilitiesOf, createFleet, type Fleet } from '../../src/index.ts'
import { closePool, openPool } from '../../src/pg-pool.ts'
import { createDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'
import { startProxy } from '../support/proxy.ts'
import { describeStores } from '../support/stores.ts'
import { testBackend } from '../support/test-backend.ts'
import { createWorld, type World } from '../support/world.ts'

const LONG = { wait: '30s' } as const

/** Longer than any test: whoever is answered was told, and did not find out by looking. */
const NEVER_MS = 600_000

async function listeners(db: Db): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity where application_name = 'sandman listen' and datname = current_database()
      and query like 'listen %' and state = 'idle'`.execute(db)
  return rows.map(({ pid }) => pid)
}

describe('the waiting room', () => {
  let database: LedgerTest['database']
  let ledger: LedgerTest['ledger']
  useLedger((given) => {
    ;({ database, ledger } = given)
  })

  /** A waiting room whose statements are counted. */
  function openRoom({ lookEveryMs = NEVER_MS, databaseUrl = database.url, fleet = ledger.fleet } = {}) {
    const events = new RecordedEvents()
    let looks = 0
    let reads = 0
    const pool = openPool({ connectionString: databaseUrl, max: 4 }, () => {})
    const db: Db = new Kysely<Database>({
      dialect: new PostgresDialect({ pool }),
      log: ({ query }) => {
        if (/find_(operations|executions)/.test(query.sql)) looks++
        if (query.sql.includes('read_output')) reads++
      },
    }).withSchema('sandman')
    const room = new WaitingRoom({ db, databaseUrl, fleet, events, lookEveryMs })
    onTestFinished(async () => {
      await room.close()
      await closePool(pool)
    })
    return { room, db, events, looks: () => looks, reads: () => reads }
  }

  const told = (operationIds: string[]) => announce(database.db, { fleet: ledger.fleet, ids: operationIds })

  /** Everybody has been looked at once, and from now on is told or is not. */
  const seated = async (looks: () => number, atLeast: number) => {
    await expect.poll(() => listeners(database.db)).toHaveLength(1)
    await expect.poll(looks).toBeGreaterThanOrEqual(atLeast)
  }

  test('has one connection and one statement for a hundred who wait for one operation', async () => {
    const { operation } = await ledger.spawn()
    const { room, looks } = openRoom()
    const waiting = Array.from({ length: 100 }, () => room.operation(operation.id, { withinMs: 30_000 }))
    await seated(looks, 2) // when they came in, and when the line was up
    expect(looks()).toBe(2)
    await ledger.perform(operation.id)
    await told([operation.id])
    for (const found of await Promise.all(waiting)) expect(found?.operation.status).toBe('succeeded')
    expect(looks()).toBe(3)
    expect(await listeners(database.db)).toHaveLength(1)
  })

  test('has one connection and a few statements for a hundred who wait for a hundred operations', async () => {
    const spawned = await Promise.all(Array.from({ length: 100 }, () => ledger.spawn()))
    const ids = spawned.map(({ operation }) => operation.id)
    const { room, looks } = openRoom()
    const waiting = ids.map((id) => room.operation(id, { withinMs: 30_000 }))
    await seated(looks, 2)
    expect(looks()).toBe(2)
    for (const id of ids) await ledger.perform(id)
    await told(ids)
    const found = await Promise.all(waiting)
    expect(found.map((each) => [each?.operation.id, each?.operation.status])).toEqual(
      ids.map((id) => [id, 'succeeded']),
    )
    expect(looks()).toBe(3)
    expect(await listeners(database.db)).toHaveLength(1)
  })

  test('has one statement, and no more, for a hundred who read an output to which nothing is added', async () => {
    const { id } = await ledger.execute((await ledger.at('running')).id)
    const { room, db, looks, reads } = openRoom()
    const read = async () => {
      const pieces: string[] = []
      for await (const { bytes } of streamOutput({ db, room }, { executionId: id, from: 0 }))
        pieces.push(Buffer.from(bytes).toString())
      return pieces.join('')
    }
    const reading = Array.from({ length: 100 }, read)
    await seated(looks, 2)
    expect([looks(), reads()]).toEqual([2, 0])
    await told([`exe_${'0'.repeat(26)}`])
    const { clock } = ledger
    await startExecution(database.db, { id, incarnation: 'one', clock })
    const piece = { id, fence: 0, from: 0, bytes: Buffer.from('hello'), cursor: '5', truncated: false }
    await appendOutput(database.db, [piece], clock)
    await told([id])
    await expect.poll(reads).toBe(100)
    await endExecution(database.db, { id, end: { status: 'cancelled', reason: 'cancelled' }, clock })
    await told([id])
    expect(new Set(await Promise.all(reading))).toEqual(new Set(['hello']))
    expect(reads()).toBe(100)
  })

  test('does not look for what it is told of and nobody waits for', async () => {
    const { operation } = await ledger.spawn()
    const other = await ledger.spawn()
    const { room, looks } = openRoom()
    const waiting = room.operation(operation.id, { withinMs: 30_000 })
    await seated(looks, 2)
    await told([other.operation.id, 'nonsense'])
    await told([])
    await ledger.perform(operation.id)
    await told([operation.id])
    await waiting
    expect(looks()).toBe(3)
  })

  test('answers at once who asks for what has settled before', async () => {
    const { operation } = await ledger.spawn()
    await ledger.perform(operation.id)
    const { room } = openRoom()
    expect(await room.operation(operation.id, { withinMs: 30_000 })).toMatchObject({
      operation: { status: 'succeeded' },
    })
  })

  test('looks by itself, once for all, when nobody tells it', async () => {
    const { operation } = await ledger.spawn()
    const { room, looks } = openRoom({ lookEveryMs: 50 })
    const waiting = Array.from({ length: 100 }, () => room.operation(operation.id, { withinMs: 30_000 }))
    await expect.poll(looks).toBeGreaterThan(3)
    await ledger.perform(operation.id)
    for (const found of await Promise.all(waiting)) expect(found?.operation.status).toBe('succeeded')
  })

  test('stops looking when nobody waits any more', async () => {
    const { operation } = await ledger.spawn()
    const { room, looks } = openRoom({ lookEveryMs: 5 })
    expect(await room.operation(operation.id, { withinMs: 50 })).toBeUndefined()
    const before = looks()
    // Another one that goes on is the clock by which this one has stopped.
    const clock = openRoom({ lookEveryMs: 5 })
    const ticking = clock.room.operation(operation.id, { withinMs: 30_000 })
    await expect.poll(clock.looks, { interval: 10 }).toBeGreaterThan(10)
    expect(looks()).toBeLessThanOrEqual(before + 1) // the one that was under way
    await ledger.perform(operation.id)
    await ticking
  })

  test('listens again when its connection is lost, and looks for what it has not heard meanwhile', async () => {
    const { operation } = await ledger.spawn()
    const later = await ledger.spawn()
    const { room, events, looks } = openRoom()
    const waiting = room.operation(operation.id, { withinMs: 30_000 })
    const waitingLonger = room.operation(later.operation.id, { withinMs: 30_000 })
    await seated(looks, 2)
    const [pid] = await listeners(database.db)
    await ledger.perform(operation.id)
    await sql`select pg_terminate_backend(${pid})`.execute(database.db)
    expect((await waiting)?.operation.status).toBe('succeeded')
    expect(events.count('database.connection_lost')).toBe(1)
    const [again] = await listeners(database.db)
    expect(again).not.toBe(pid)

    await ledger.perform(later.operation.id)
    await told([later.operation.id])
    expect((await waitingLonger)?.operation.status).toBe('succeeded')
  })

  test('waits through a database that is away, and answers when it is back', async () => {
    const proxy = await startProxy(database.url)
    onTestFinished(() => proxy.close())
    const { operation } = await ledger.spawn()
    const { room, events, looks } = openRoom({ lookEveryMs: 50, databaseUrl: proxy.url })
    const waiting = room.operation(operation.id, { withinMs: 30_000 })
    await seated(looks, 2)
    await proxy.refuse()
    await events.until('wait.failed', 2)
    await ledger.perform(operation.id)
    await proxy.heal()
    expect((await waiting)?.operation.status).toBe('succeeded')
  })

  test('lets go of signals, timers and callers when it has answered', async () => {
    const { operation } = await ledger.spawn()
    const { room } = openRoom()
    const { signal } = new AbortController()
    for (let i = 0; i < 20; i++) expect(await room.operation(operation.id, { withinMs: 1, signal })).toBeUndefined()
    expect(getEventListeners(signal, 'abort')).toEqual([])
    const aborted = new AbortController()
    const waiting = room.operation(operation.id, { withinMs: 30_000, signal: aborted.signal })
    expect(getEventListeners(aborted.signal, 'abort')).toHaveLength(1)
    aborted.abort('enough')
    await expect(waiting).rejects.toBe('enough')
    expect(getEventListeners(aborted.signal, 'abort')).toEqual([])
  })

  test('of one fleet does not hear another', async () => {
    const { operation } = await ledger.spawn()
    const { room, looks } = openRoom({ fleet: 'another' })
    const waiting = room.operation(operation.id, { withinMs: 300 })
    await seated(looks, 2)
    await ledger.perform(operation.id)
    await told([operation.id])
    expect(await waiting).toBeUndefined()
    expect(looks()).toBe(2)
  })
})

describe('the announcer', () => {
  async function listen(url: string, fleet: string) {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(`listen "sandman.${fleet}"`)
    const notices: string[][] = []
    client.on('notification', ({ payload }) => notices.push((payload ?? '').split(',')))
    onTestFinished(() => client.end())
    return notices
  }

  test('tells of many operations in few notices, and of each once', async () => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const notices = await listen(database.url, 'f')
    const announcer = new Announcer({ db: database.db, fleet: 'f', events: new Events() })
    const ids = Array.from({ length: 1_000 }, (_, i) => `op_${String(i).padStart(26, '0')}`)
    for (const id of ids) announcer.announce([id])
    await announcer.close()
    await expect.poll(() => notices.flat()).toHaveLength(1_000)
    expect(notices.flat().toSorted()).toEqual(ids)
    // The first goes alone, because nobody knows that more will come.
    expect(notices).toHaveLength(1 + Math.ceil(999 / IDS_PER_NOTICE))
    expect(Math.max(...notices.map(({ length }) => length))).toBe(IDS_PER_NOTICE)
  })

  // Between the last look at what is pending and the end of sending are moments in which more may come.
  test.each([0, 1, 2, 3, 4, 5, 6])(
    'forgets nothing that comes while it finishes, %i moments later',
    async (moments) => {
      const events = new RecordedEvents()
      const { db, close } = openDb({
        databaseUrl: 'postgres://nobody@127.0.0.1:1/nothing',
        applicationName: 'x',
        events,
      })
      const announcer = new Announcer({ db, fleet: 'f', events })
      const unsubscribe = events.subscribe(async ({ name }) => {
        if (name !== 'notice.failed') return
        unsubscribe()
        for (let i = 0; i < moments; i++) await Promise.resolve()
        announcer.announce(['second'])
      })
      announcer.announce(['first'])
      await events.until('notice.failed', 2)
      expect(events.happened.map(({ fields }) => fields.ids)).toEqual([['first'], ['second']])
      await announcer.close()
      await close()
    },
  )
})

describeStores('a crowd that waits', (kind) => {
  let world: World
  beforeAll(async () => {
    world = await createWorld(kind)
    await world.startWorker()
  })
  afterAll(() => world.end())

  test('for a hundred spawns is answered over one listening connection', async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => world.fleet.spawn({ backend: 'test', wait: '50s' })),
    )
    expect(new Set(answers.map(({ sandbox }) => sandbox.state))).toEqual(new Set(['running']))
    expect(await listeners(world.db)).toHaveLength(1)
    await world.expectInvariants()
  })

  test('is answered also when the connection that listens was killed, and listens again', async () => {
    const gate = world.provider.holdAt('create')
    const waiting = Array.from({ length: 10 }, () => world.fleet.spawn({ backend: 'test', ...LONG }))
    await gate.entered(10)
    const [pid] = await listeners(world.db)
    await sql`select pg_terminate_backend(${pid})`.execute(world.db)
    const listensAgain = (pids: number[]) => pids.length === 1 && pids[0] !== pid
    await expect.poll(() => listeners(world.db), { timeout: 5_000 }).toSatisfy(listensAgain)
    gate.open()
    for (const { sandbox } of await Promise.all(waiting)) expect(sandbox.state).toBe('running')
    await world.expectInvariants()
  })
})

describe('a fleet whose database is away', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld('redis')
    await world.startWorker()
  })
  afterAll(() => world.end())

  async function behindProxy(): Promise<{ fleet: Fleet; proxy: Awaited<ReturnType<typeof startProxy>> }> {
    const proxy = await startProxy(world.place.databaseUrl)
    const backends = [abilitiesOf(testBackend({ url: world.provider.url }))]
    const fleet = createFleet({ ...world.place, databaseUrl: proxy.url, backends })
    onTestFinished(async () => {
      await fleet.close()
      await proxy.close()
    })
    return { fleet, proxy }
  }

  test('says so for every call, and accepts again once it is back', async () => {
    const { fleet, proxy } = await behindProxy()
    const { sandbox, operation } = await fleet.spawn({ backend: 'test', ...LONG })
    await proxy.refuse()
    for (const call of [
      () => fleet.spawn({ backend: 'test', ...LONG }),
      () => fleet.pause(sandbox.id),
      () => fleet.operation(operation.id, LONG),
      () => fleet.get(sandbox.id),
      () => fleet.list(),
      () => fleet.events(sandbox.id),
    ]) {
      await expect(call()).rejects.toMatchObject({ name: 'SandmanError', code: 'database_unreachable' })
    }
    await proxy.heal()
    expect((await fleet.pause(sandbox.id, LONG)).sandbox.state).toBe('suspended')
    await world.expectInvariants()
  })

  test('answers who waited through it once it is back', async () => {
    const { fleet, proxy } = await behindProxy()
    const gate = world.provider.holdAt('create')
    const waiting = fleet.spawn({ backend: 'test', ...LONG })
    await gate.entered(1)
    proxy.reset()
    await proxy.resets(2)
    gate.open()
    await proxy.heal()
    expect((await waiting).sandbox.state).toBe('running')
    await world.expectInvariants()
  })

  test.each(['refuse', 'hang'] as const)(
    'gives back what it knew of an accepted operation when the wait is over and it still is (%s)',
    async (fault) => {
      const { fleet, proxy } = await behindProxy()
      const gate = world.provider.holdAt('create')
      const waiting = fleet.spawn({ backend: 'test', wait: '500ms' })
      await gate.entered(1)
      await proxy[fault]()
      const { operation } = await waiting
      expect(operation).toMatchObject({ status: 'active', kind: 'spawn' })
      await proxy.heal()
      gate.open()
      expect((await world.fleet.operation(operation.id, LONG)).sandbox.state).toBe('running')
      await world.expectInvariants()
    },
  )

  test('says so too of a statement that the server gave up', async () => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const late = await database.pool.query('set statement_timeout = 1; select pg_sleep(60)').catch((error) => error)
    expect(late).toMatchObject({ code: '57014' })
    expect(explainDbError(late, database.url)).toMatchObject({ code: 'database_unreachable' })
  })

  test('says when it was never migrated', async () => {
    const database = await createDatabase({ migrated: false })
    onTestFinished(() => database.drop())
    const fleet = createFleet({ ...world.place, databaseUrl: database.url })
    onTestFinished(() => fleet.close())
    const id = `sbx_${'0'.repeat(26)}`
    for (const call of [
      () => fleet.spawn({ backend: 'local', ...LONG }),
      () => fleet.kill(id),
      () => fleet.get(id),
      () => fleet.list(),
      () => fleet.operation(`op_${'0'.repeat(26)}`, LONG),
    ]) {
      await expect(call()).rejects.toMatchObject({
        code: 'database_not_migrated',
        message: expect.stringContaining('sandman migrate'),
      })
    }
  })
})
