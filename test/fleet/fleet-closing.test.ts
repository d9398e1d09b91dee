import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { announce } from '../../src/db/announce.ts'
import type { Db } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'
import { abilitiesOf, createFleet, createWorker, type Fleet, isSandmanError } from '../../src/index.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'
import { type RedisServer, startPrivateRedis } from '../support/redis.ts'
import { describeStores, uniqueFleet } from '../support/stores.ts'
import { testBackend } from '../support/test-backend.ts'
import { createWorld, type World } from '../support/world.ts'

const LONG = { wait: '30s' } as const

/** Connections to this database, by what opened them. */
async function connectionsTo(db: Db): Promise<Record<string, number>> {
  const { rows } = await sql<{ name: string; count: number }>`
    select application_name as name, count(*)::int from pg_stat_activity
    where datname = current_database() and application_name <> 'sandman test' group by 1`.execute(db)
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
}

describeStores('a fleet that closes', (kind) => {
  let world: World
  beforeAll(async () => {
    world = await createWorld(kind)
    await world.startWorker()
  })
  afterAll(() => world.end())

  const open = (more: Partial<Parameters<typeof createFleet>[0]> = {}): Fleet =>
    createFleet({ ...world.place, backends: [abilitiesOf(testBackend({ url: world.provider.url }))], ...more })

  test('tells those who wait, and carries out what they asked for', async () => {
    const fleet = open()
    const gate = world.provider.holdAt('create')
    const waiting = [1, 2, 3].map(() => fleet.spawn({ backend: 'test', ...LONG }))
    await gate.entered(3)
    const [, ...answers] = await Promise.all([fleet.close(), ...waiting.map((each) => each.catch((error) => error))])
    for (const answer of answers) expect(answer).toMatchObject({ name: 'SandmanError', code: 'fleet_closed' })
    gate.open()
    const states = async () => (await world.fleet.list({ limit: 3 })).items.map(({ state }) => state)
    await expect.poll(states).toEqual(['running', 'running', 'running'])
    await world.expectInvariants()
  })

  test('refuses every call afterwards, and may be closed again', async () => {
    const fleet = open()
    const { id } = (await fleet.spawn({ backend: 'test', ...LONG })).sandbox
    await Promise.all([fleet.close(), fleet.close()])
    await fleet.close()
    for (const call of [
      () => fleet.spawn({ backend: 'test', ...LONG }),
      () => fleet.adopt({ backend: 'test', ref: 'vm' }),
      () => fleet.pause(id),
      () => fleet.resume(id),
      () => fleet.snapshot(id),
      () => fleet.kill(id),
      () => fleet.destroy(id),
      () => fleet.operation(id),
      () => fleet.get(id),
      () => fleet.list(),
      () => fleet.events(id),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'fleet_closed' })
    }
    expect((await world.fleet.get(id)).state).toBe('running')
  })

  test('may be closed without ever having been used', async () => {
    await open().close()
    await open({ databaseUrl: 'postgres://nobody@127.0.0.1:1/nothing' }).close()
  })

  test('answers calls that are under way, however many stand in line for a connection', async () => {
    const fleet = open({ connectionsMax: 2 })
    await fleet.list()
    const calls = [
      ...Array.from({ length: 6 }, () => fleet.spawn({ backend: 'test' })),
      ...Array.from({ length: 6 }, () => fleet.list()),
      ...Array.from({ length: 6 }, () => fleet.spawn({ backend: 'test', ...LONG })),
    ]
    const closed = fleet.close()
    const answers = await Promise.allSettled(calls)
    await closed
    expect(answers.slice(0, 12).map(({ status }) => status)).toEqual(Array(12).fill('fulfilled'))
    for (const answer of answers.slice(12)) {
      expect(answer.status === 'rejected' && isSandmanError(answer.reason, 'fleet_closed')).toBe(true)
    }
    await world.expectInvariants()
  })
})

describe('a fleet that closes while its database does not answer', () => {
  test.each(['silent', 'locked'] as const)('does so in time, and its callers are told (%s)', async (fault) => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const proxy = await startProxy(database.url)
    onTestFinished(() => proxy.close())
    const fleet = createFleet({ databaseUrl: proxy.url, fleet: uniqueFleet() })
    const { operation } = await fleet.spawn({ backend: 'local' })
    const waiting = fleet.operation(operation.id, { wait: '10m' }).catch((error) => error.code)
    await expect.poll(() => connectionsTo(database.db)).toMatchObject({ 'sandman listen': 1 })
    const locker = await database.pool.connect()
    onTestFinished(() => locker.release(true))
    if (fault === 'silent') proxy.hang()
    else await locker.query('begin; lock table sandman.operations, sandman.sandboxes')
    const calling = fleet.list().catch((error) => error.code)
    if (fault === 'locked') {
      await announce(database.db, { fleet: fleet.name, ids: [operation.id] })
      const blocked = sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
      await expect.poll(async () => (await blocked.execute(database.db)).rows.length).toBe(2)
    }
    const startedMs = performance.now()
    await fleet.close()
    expect(await waiting).toBe('fleet_closed')
    expect(await calling).toBe('database_unreachable')
    expect(performance.now() - startedMs).toBeLessThan(8_000)
    await expect.poll(() => connectionsTo(database.db), { timeout: 5_000 }).toEqual({})
  })
})

describeStores('a process that only asks', (kind) => {
  let database: TestDatabase
  let redis: RedisServer | undefined
  let eye: Redis | undefined
  let place: { databaseUrl: string; redisUrl?: string; fleet: string }
  beforeAll(async () => {
    database = await createDatabase()
    // One of its own: whoever is connected to it is one of ours.
    redis = kind === 'redis' ? await startPrivateRedis() : undefined
    eye = redis && new Redis(redis.url)
    place = { databaseUrl: database.url, ...(redis && { redisUrl: redis.url }), fleet: uniqueFleet() }
  })
  afterAll(async () => {
    eye?.disconnect()
    await redis?.stop()
    await database.drop()
  })

  const redisClients = async (): Promise<number> =>
    eye
      ? String(await eye.client('LIST'))
          .trim()
          .split('\n').length - 1
      : 0

  test('opens no connection before it is used, none of a worker then, and leaves none behind', async () => {
    const fleet = createFleet(place)
    expect([await connectionsTo(database.db), await redisClients()]).toEqual([{}, 0])

    const spawned = await Promise.all(Array.from({ length: 30 }, () => fleet.spawn({ backend: 'local' })))
    const waiting = spawned.map(({ operation }) => fleet.operation(operation.id, LONG).catch(() => {}))
    await expect.poll(() => connectionsTo(database.db)).toMatchObject({ 'sandman listen': 1 })
    const {
      'sandman fleet': asking = 0,
      'sandman queue producer': ringing = 0,
      ...others
    } = await connectionsTo(database.db)
    expect(others).toEqual({ 'sandman listen': 1 })
    expect(asking).toBeLessThanOrEqual(10)
    expect(ringing).toBeLessThanOrEqual(kind === 'postgres' ? 3 : 0)
    expect(await redisClients()).toBe(kind === 'redis' ? 1 : 0)
    if (eye) {
      expect(String(await eye.client('LIST'))).not.toMatch(/cmd=(bzpopmin|brpop|blmove|xread)/)
      const producer = new Producer(
        openStore({ ...place, redisUrl: place.redisUrl, role: 'producer', events: new Events() }),
      )
      for (const { queue } of await producer.all()) expect(await queue.getWorkers()).toEqual([])
      await producer.close()
    }

    await fleet.close()
    await Promise.all(waiting)
    await expect.poll(() => connectionsTo(database.db)).toEqual({})
    await expect.poll(redisClients).toBe(0)
  })

  test('has fewer connections than one that works, which leaves none behind either', async () => {
    const worker = await createWorker({
      ...place,
      fleet: uniqueFleet(),
      backends: [testBackend({ url: 'http://127.0.0.1:1' })],
    })
    const working = kind === 'postgres' ? 'sandman queue consumer' : 'sandman worker'
    await expect.poll(async () => (await connectionsTo(database.db))[working]).toBeGreaterThan(0)
    if (eye) await expect.poll(redisClients).toBeGreaterThan(1)
    await worker.stop()
    await expect.poll(() => connectionsTo(database.db)).toEqual({})
    await expect.poll(redisClients).toBe(0)
  })

  test('ends by itself once it has closed its fleet', async () => {
    const script = path.join(await mkdtemp(path.join(os.tmpdir(), 'sandman-app-')), 'app.mts')
    onTestFinished(() => rm(path.dirname(script), { recursive: true }))
    const index = path.resolve(import.meta.dirname, '../../src/index.ts')
    await writeFile(
      script,
      `import { createFleet } from ${JSON.stringify(index)}
      const fleet = createFleet(${JSON.stringify(place)})
      const { operation } = await fleet.spawn({ backend: 'local' })
      const answer = await fleet.operation(operation.id, { wait: '50ms' })
      const waiting = fleet.operation(operation.id, { wait: '10m' }).catch((error) => error.code)
      await fleet.close()
      console.log(answer.operation.status, await waiting)`,
    )
    const { stdout } = await promisify(execFile)(process.execPath, [script], { timeout: 20_000 })
    expect(stdout.trim()).toBe('active fleet_closed')
    await expect.poll(() => connectionsTo(database.db)).toEqual({})
  })
})
