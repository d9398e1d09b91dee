import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Consumer, consume } from '../../../src/queues/bullmq/consumer.ts'
import { Producer } from '../../../src/queues/bullmq/producer.ts'
import type { QueueStore } from '../../../src/queues/bullmq/store.ts'
import { canaryQueue } from '../../../src/queues/canary.ts'
import { done } from '../../../src/queues/outcome.ts'
import { RecordedEvents } from '../../support/events.ts'
import { gate } from '../../support/gate.ts'
import { type FaultyProxy, startProxy } from '../../support/proxy.ts'
import { createStoreHome, describeStores, openTestStore, type StoreHome } from '../../support/stores.ts'

describeStores('when the store is away', (kind) => {
  let home: StoreHome
  let proxy: FaultyProxy
  /** The same home, reached through the proxy. */
  let behindProxy: StoreHome
  let events: RecordedEvents
  const closers: (() => Promise<void>)[] = []

  beforeEach(async () => {
    home = await createStoreHome(kind)
    const proxied = await startProxy(home.redisUrl ?? home.databaseUrl)
    proxy = proxied
    behindProxy = { ...home, ...(kind === 'redis' ? { redisUrl: proxied.url } : { databaseUrl: proxied.url }) }
    events = new RecordedEvents()
  })

  afterEach(async () => {
    await proxy.heal()
    for (const close of closers.splice(0).reverse()) await close()
    await proxy.close()
    await home.drop()
  })

  function startProducer(where: StoreHome): Producer {
    const producer = new Producer(
      openTestStore(where, { role: 'producer', events: where === home ? new RecordedEvents() : events }),
    )
    closers.push(() => producer.close())
    return producer
  }

  function startConsumer(work = async () => {}): { consumer: Consumer; store: QueueStore; handled: string[] } {
    const handled: string[] = []
    const store = openTestStore(behindProxy, { role: 'consumer', events })
    const consumer = consume({
      store,
      queue: canaryQueue,
      workerName: 'test',
      events,
      handler: async ({ canaryId }) => {
        handled.push(canaryId)
        await work()
        return done()
      },
    })
    closers.push(async () => {
      await consumer.stop(0)
      await store.close()
    })
    return { consumer, store, handled }
  }

  const ring = (producer: Producer) => producer.ring(canaryQueue, { canaryId: randomUUID() })

  test('a producer that never reached it says so within its deadline, and works once it is there', async () => {
    await proxy.refuse()
    const producer = startProducer(behindProxy)
    await expect(ring(producer)).rejects.toMatchObject({ code: 'queue_unreachable' })
    await proxy.heal()
    await expect.poll(() => ring(producer).then(() => 'rung'), { timeout: 20_000 }).toBe('rung')
  })

  test('a producer that never reached it can be closed', async () => {
    await proxy.refuse()
    const producer = startProducer(behindProxy)
    await expect(ring(producer)).rejects.toMatchObject({ code: 'queue_unreachable' })
    await producer.close()
  })

  test('a worker that is started while it is away works once it is there', async () => {
    const producer = startProducer(home)
    await proxy.refuse()
    const { handled, store } = startConsumer()
    // Its own first look came before this one.
    await Promise.race([store.look().catch(() => {}), events.until('queue.connection_lost')])
    await proxy.heal()
    await ring(producer)
    await expect.poll(() => handled.length, { timeout: 20_000 }).toBe(1)
  })

  test('a worker stops in time although it cannot hand back what it is working on', async () => {
    const producer = startProducer(home)
    const work = gate()
    const { consumer } = startConsumer(() => work.enter())
    await ring(producer)
    await work.entered(1)
    await proxy.refuse()
    await consumer.stop(0)
    expect(events.count('job.handed_back')).toBe(0)
    work.open()
  })

  test.each(['refuse', 'hang'] as const)(
    'a producer in the middle of its work fails clearly and in time (%s), and recovers',
    async (fault) => {
      const producer = startProducer(behindProxy)
      await ring(producer)
      await proxy[fault]()
      const error = await ring(producer).catch((reason: Error) => reason)
      expect(error).toMatchObject({
        code: 'queue_unreachable',
        message: expect.stringContaining('Queue canary was not rung: the queue does not answer'),
      })
      // A connection that is known to be gone is not worth waiting for.
      if (fault === 'refuse') expect(error?.cause).not.toMatchObject({ code: 'deadline_exceeded' })
      await proxy.heal()
      await expect.poll(() => ring(producer).then(() => 'rung'), { timeout: 20_000 }).toBe('rung')
    },
  )

  test('a worker takes jobs again after every connection was cut', async () => {
    const producer = startProducer(home)
    const { handled } = startConsumer()
    // Counted by job and not by delivery: one whose completion was cut off is rightly delivered again.
    const everyJobOf = (count: number) => expect.poll(() => new Set(handled).size, { timeout: 30_000 }).toBe(count)
    await ring(producer)
    await everyJobOf(1)
    proxy.cut()
    await ring(producer)
    await everyJobOf(2)
    proxy.cut()
    proxy.cut()
    await ring(producer)
    await everyJobOf(3)
  })

  test('a worker waits for a store that is down, says so once, and takes what came meanwhile', async () => {
    const producer = startProducer(home)
    startConsumer()
    await ring(producer)
    await events.until('job.done', 1)
    proxy.reset()
    await ring(producer)
    await ring(producer)
    await proxy.resets(5)
    expect(events.count('queue.connection_lost')).toBe(1)
    expect(events.count('queue.error')).toBe(0)
    await proxy.heal()
    await events.until('job.done', 3)
    await events.until('queue.connection_restored')
  })
})
