import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pauseQueue } from '../../src/queues/pause.ts'
import { type RedisServer, startPrivateRedis } from '../support/redis.ts'
import { describeStores, type StoreKind } from '../support/stores.ts'
import { isThorough } from '../support/thorough.ts'
import { createWorld, type World } from '../support/world.ts'

/** Four operations each. More than a worker pauses at once: of the others, the job is all that there is when it is forgotten. */
const SANDBOXES = pauseQueue.concurrency + (isThorough ? 34 : 8)

/** Everything that the queue knows, schedules and locks included. */
async function forget(kind: StoreKind, { home }: World): Promise<void> {
  if (kind === 'redis') {
    const redis = new Redis(home.redisUrl as string)
    await redis.flushall()
    redis.disconnect()
    return
  }
  const client = new pg.Client(home.databaseUrl)
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'bullmq' and tablename not like '%migration%'`,
  )
  await client.query(`truncate ${rows.map(({ name }) => name).join(', ')} cascade`)
  await client.end()
}

describeStores('incident T: the queue forgot everything', (kind) => {
  let world: World
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = kind === 'redis' ? await startPrivateRedis() : undefined // it is flushed, and others have theirs
    world = await createWorld(kind, redis && { redisUrl: redis.url })
  })
  afterAll(async () => {
    await world?.end()
    await redis?.stop()
  })

  test(`in the middle of ${4 * SANDBOXES} operations: all settle, and none is done twice`, async () => {
    const { fleet, provider } = world
    const worker = await world.startWorker()
    const spawned = await Promise.all(
      Array.from({ length: SANDBOXES }, () => fleet.spawn({ backend: 'test', wait: '120s' })),
    )
    const held = provider.holdAt('suspend')
    const ids = spawned.map(({ sandbox }) => sandbox.id)
    const ask = async (id: string) => [
      await fleet.pause(id),
      await fleet.resume(id),
      await fleet.pause(id),
      await fleet.destroy(id),
    ]
    const asked = (await Promise.all(ids.map(ask))).flat()
    expect(asked).toHaveLength(4 * SANDBOXES)
    await held.entered(pauseQueue.concurrency)
    await forget(kind, world)
    held.open()
    const settled = await Promise.all(asked.map(({ operation }) => fleet.operation(operation.id, { wait: '180s' })))
    for (const { operation } of settled) expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
    for (const id of ids) expect((await fleet.get(id)).state).toBe('gone')
    const suspends = provider.performed.filter(({ method }) => method === 'suspend').map(({ body }) => body.key)
    expect(new Set(suspends).size).toBe(suspends.length)
    expect(suspends).toHaveLength(2 * SANDBOXES)
    expect(provider.instances.size).toBe(0)
    await world.expectInvariants()
    await worker.stop()
  }, 240_000)

  test('its schedules are made anew, and tick', async () => {
    const { fleet } = world
    const worker = await world.startWorker({ queues: ['spawn', 'pause', 'reaper', 'sweeper'] })
    await worker.events.until('schedule.made')
    const { sandbox } = await fleet.spawn({ backend: 'test', ttl: { idle: '1s' }, wait: '30s' })
    await forget(kind, world)
    await worker.events.until('schedule.made', 2)
    await expect.poll(async () => (await fleet.get(sandbox.id)).state, { timeout: 60_000 }).toBe('suspended')
    expect((await world.operations(sandbox.id)).at(-1)?.cause).toMatchObject({ by: 'reaper' })
    await worker.stop()
  }, 120_000)
})
