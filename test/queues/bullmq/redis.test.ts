import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Redis } from 'ioredis'
import { afterEach, expect, inject, test } from 'vitest'
import { consume } from '../../../src/queues/bullmq/consumer.ts'
import { openStore } from '../../../src/queues/bullmq/open-store.ts'
import { Producer } from '../../../src/queues/bullmq/producer.ts'
import { canaryQueue } from '../../../src/queues/canary.ts'
import { done } from '../../../src/queues/outcome.ts'
import { RecordedEvents } from '../../support/events.ts'
import { startProxy } from '../../support/proxy.ts'
import { type RedisServer, startPrivateRedis, startSentinel } from '../../support/redis.ts'
import { uniqueFleet } from '../../support/stores.ts'

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** A producer and a worker on one Redis, whatever its kind. */
function startBoth(redisUrl: string): { producer: Producer; events: RecordedEvents } {
  const events = new RecordedEvents()
  const options = { redisUrl, databaseUrl: '', fleet: uniqueFleet(), events }
  const producer = new Producer(openStore({ ...options, role: 'producer' }))
  const store = openStore({ ...options, role: 'consumer' })
  const consumer = consume({ store, queue: canaryQueue, handler: async () => done(), workerName: 'test', events })
  closers.push(
    () => producer.close(),
    () => store.close(),
    () => consumer.stop(0),
  )
  return { producer, events }
}

async function startRedis(...args: string[]): Promise<RedisServer> {
  const server = await startPrivateRedis(...args)
  closers.push(() => server.stop())
  return server
}

test('a worker that starts while Redis is down begins when it comes up', async () => {
  const proxy = await startProxy(inject('redisUrl'))
  closers.push(() => proxy.close())
  await proxy.refuse()
  const { producer, events } = startBoth(proxy.url)
  await events.until('queue.connection_lost')
  await proxy.heal()
  await expect
    .poll(() => producer.ring(canaryQueue, { canaryId: randomUUID() }).then(() => 'rung'), { timeout: 20_000 })
    .toBe('rung')
  await events.until('job.done')
})

test('a Redis Cluster carries the queues', async () => {
  const nodes = await startCluster()
  const { producer, events } = startBoth(`redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`)
  for (let i = 0; i < 10; i++) await producer.ring(canaryQueue, { canaryId: randomUUID() })
  await events.until('job.done', 10)
  await expect
    .poll(async () => (await producer.counts()).canary)
    .toEqual({ waiting: 0, active: 0, delayed: 0, failed: 0, oldestMs: null })
})

test('a Redis behind a sentinel carries the queues', async () => {
  const primary = await startRedis()
  const sentinel = await startSentinel('sleepy', primary.port)
  closers.push(() => sentinel.stop())
  const { producer, events } = startBoth(`redis+sentinel://127.0.0.1:${sentinel.port}/sleepy`)
  await expect
    .poll(() => producer.ring(canaryQueue, { canaryId: randomUUID() }).then(() => 'rung'), { timeout: 20_000 })
    .toBe('rung')
  await events.until('job.done')
})

test('whoever asks for TLS behind sentinels never speaks in the clear', async () => {
  const heard = Promise.withResolvers<Buffer>()
  const sentinel = createServer((socket) => socket.once('data', heard.resolve).on('error', () => {}))
  await once(sentinel.listen(0, '127.0.0.1'), 'listening')
  closers.push(async () => sentinel.close())
  startBoth(`rediss+sentinel://127.0.0.1:${(sentinel.address() as AddressInfo).port}/sleepy`)
  const [handshake] = await heard.promise
  expect(handshake, 'the first byte of a TLS record that opens a connection').toBe(0x16)
})

test('a Redis that may evict jobs is recognised', async () => {
  const server = await startRedis('--maxmemory-policy', 'allkeys-lru')
  const { producer } = startBoth(server.url)
  expect(await producer.store.look()).toMatchObject({
    evictionPolicy: 'allkeys-lru',
    version: expect.stringMatching(/^(Redis|Valkey) \d/),
  })
})

/** Three nodes that share the slots, so that keys which do not belong together are refused as on any cluster. */
async function startCluster(): Promise<RedisServer[]> {
  const nodes = await Promise.all(
    [0, 1, 2].map(() => startRedis('--cluster-enabled', 'yes', '--cluster-node-timeout', '2000')),
  )
  const clients = nodes.map(({ url }) => new Redis(url))
  const slots = [
    [0, 5460],
    [5461, 10_922],
    [10_923, 16_383],
  ] as const
  await Promise.all(
    clients.map((client, index) =>
      client.call('CLUSTER', 'ADDSLOTSRANGE', ...(slots[index] as readonly [number, number])),
    ),
  )
  await Promise.all(nodes.slice(1).map(({ port }) => clients[0]?.call('CLUSTER', 'MEET', '127.0.0.1', port)))
  for (const client of clients) {
    await expect.poll(() => client.cluster('INFO'), { timeout: 30_000 }).toContain('cluster_state:ok')
    client.disconnect()
  }
  return nodes
}
