import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { type Consumer, consume, type Handler } from '../../../src/queues/bullmq/consumer.ts'
import { Producer } from '../../../src/queues/bullmq/producer.ts'
import { type CanaryPayload, canaryQueue } from '../../../src/queues/canary.ts'
import { KEEP_DONE, type QueueDefinition } from '../../../src/queues/define.ts'
import { done, snoozed, superseded } from '../../../src/queues/outcome.ts'
import { RecordedEvents } from '../../support/events.ts'
import { gate } from '../../support/gate.ts'
import { createStoreHome, describeStores, openTestStore, type StoreHome } from '../../support/stores.ts'

/** As in production, but a failed attempt is followed by the next at once. */
const queue: QueueDefinition<CanaryPayload> = { ...canaryQueue, backoff: { kind: 'fixed', delayMs: 1 } }

describeStores('a queue', (kind) => {
  let home: StoreHome
  let producer: Producer
  let events: RecordedEvents
  const consumers: Consumer[] = []

  beforeEach(async () => {
    home = await createStoreHome(kind)
    events = new RecordedEvents()
    producer = new Producer(openTestStore(home, { role: 'producer', events }))
  })

  afterEach(async () => {
    await Promise.all(consumers.splice(0).map((consumer) => consumer.stop(0)))
    await producer.close()
    await home.drop()
  })

  function startConsumer(handler: Handler<CanaryPayload>, from = home): Consumer {
    const store = openTestStore(from, { role: 'consumer', events })
    const consumer = consume({ store, queue, handler, workerName: 'test', events })
    const stop = async (graceMs: number) => {
      await consumer.stop(graceMs)
      await store.close()
    }
    let stopped: Promise<void> | undefined
    const closing: Consumer = { stop: (graceMs) => (stopped ??= stop(graceMs)) }
    consumers.push(closing)
    return closing
  }

  const ring = (canaryId: string) => producer.ring(queue, { canaryId })
  const countOf = async (state: 'waiting' | 'active' | 'delayed' | 'failed') => (await producer.counts()).canary[state]
  const jobs = async () => (await producer.all()).find(({ name }) => name === 'canary')?.queue
  const attemptsMade = async () => (await (await jobs())?.getCompleted())?.map((job) => job.attemptsMade)

  test('delivers the payload that was rung', async () => {
    const received: CanaryPayload[] = []
    startConsumer(async (payload) => {
      received.push(payload)
      return done()
    })
    const canaryId = randomUUID()
    await ring(canaryId)
    await events.until('job.done')
    expect(received).toEqual([{ canaryId }])
  })

  test('folds equal rings into one while it waits', async () => {
    const canaryId = randomUUID()
    await Promise.all([ring(canaryId), ring(canaryId), ring(canaryId)])
    await ring(randomUUID())
    expect(await countOf('waiting')).toBe(2)
  })

  test('rings again after the work when it is rung during the work', async () => {
    const work = gate()
    startConsumer(async () => {
      await work.enter()
      return done()
    })
    const canaryId = randomUUID()
    await ring(canaryId)
    await work.entered(1)
    await Promise.all([ring(canaryId), ring(canaryId)])
    expect(work.entries).toBe(1)
    work.open()
    await events.until('job.done', 2)
    expect(work.entries).toBe(2)
  })

  test('is never deaf to a ring because the same one was answered before', async () => {
    startConsumer(async () => done())
    const canaryId = randomUUID()
    for (const times of [1, 2, 3]) {
      await ring(canaryId)
      await events.until('job.done', times)
    }
  })

  test('refuses to be rung with something that is no payload', async () => {
    const ringing = producer.ring(queue, { canaryId: 'not-a-uuid' })
    await expect(ringing).rejects.toMatchObject({ code: 'payload_invalid' })
    expect(await countOf('waiting')).toBe(0)
  })

  test('fails a poison job at once, without a retry, and keeps it to be seen', async () => {
    let handled = 0
    startConsumer(async () => {
      handled++
      return done()
    })
    await (await jobs())?.add('canary', { surprise: true }, { attempts: 5 })
    await events.until('job.gave_up')
    await expect.poll(() => countOf('failed')).toBe(1)
    const [failed] = (await (await jobs())?.getFailed()) ?? []
    expect(failed?.failedReason).toContain('A job of queue canary cannot be read')
    expect(failed?.attemptsMade).toBe(1)
    expect(handled).toBe(0)
  })

  test('tries a failing job as often as its definition says', async () => {
    let tries = 0
    startConsumer(async () => {
      tries++
      throw new Error('the provider is away')
    })
    await ring(randomUUID())
    await events.until('job.gave_up')
    expect([tries, events.count('job.failed')]).toEqual([queue.attemptsMax, queue.attemptsMax - 1])
    await expect.poll(() => countOf('failed')).toBe(1)
  })

  test('lets a job look again later without counting that as an attempt', async () => {
    let looks = 0
    startConsumer(async () => (++looks < 5 ? snoozed('not there yet', 1) : done()))
    await ring(randomUUID())
    await events.until('job.done')
    expect(looks).toBe(5)
    await expect.poll(attemptsMade).toEqual([1])
  })

  test('counts a job that lost its race as finished', async () => {
    startConsumer(async () => superseded('somebody else did it'))
    await ring(randomUUID())
    const { fields } = await events.until('job.superseded')
    expect(fields).toMatchObject({ why: 'somebody else did it' })
    await expect.poll(() => countOf('active')).toBe(0)
    expect(await countOf('failed')).toBe(0)
  })

  test('lets work in flight finish when its consumer stops within the grace period', async () => {
    const work = gate()
    const consumer = startConsumer(async () => {
      await work.enter()
      return done()
    })
    await ring(randomUUID())
    await work.entered(1)
    const stopping = consumer.stop(60_000)
    work.open()
    await stopping
    expect(events.count('job.done')).toBe(1)
    expect(events.count('job.handed_back')).toBe(0)
    expect(await countOf('active')).toBe(0)
  })

  test('hands work back that outlasts the grace period, to be done elsewhere, without costing an attempt', async () => {
    const work = gate()
    let aborted = false
    const first = startConsumer(async (_payload, { signal }) => {
      signal.addEventListener('abort', () => {
        aborted = true
      })
      await work.enter()
      return done()
    })
    await ring(randomUUID())
    await work.entered(1)
    await first.stop(0)
    expect(aborted).toBe(true)
    expect(work.entries).toBe(1)
    expect(events.count('job.handed_back')).toBeGreaterThanOrEqual(1)
    expect(await countOf('waiting')).toBe(1)

    startConsumer(async () => done())
    await events.until('job.done')
    await expect.poll(attemptsMade).toEqual([1])
    work.open()
  })

  test('hands back a job whose handler fails because it was interrupted', async () => {
    const started = gate()
    const first = startConsumer(async (_payload, { signal }) => {
      const interrupted = new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('the call was aborted')))
      })
      await Promise.race([interrupted, started.enter()])
      return done()
    })
    await ring(randomUUID())
    await started.entered(1)
    await first.stop(0)
    expect(started.entries).toBe(1)
    expect(events.count('job.handed_back')).toBeGreaterThanOrEqual(1)
    expect(events.count('job.failed')).toBe(0)
    expect(await countOf('waiting')).toBe(1)
  })

  test('keeps a bounded number of finished jobs', async () => {
    startConsumer(async () => done())
    const surplus = 50
    // Few at a time: each of them has only so long, also on a machine that is busy.
    const atOnce = 10
    for (let i = 0; i < KEEP_DONE.count + surplus; i += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, () => ring(randomUUID())))
    }
    await events.until('job.done', KEEP_DONE.count + surplus)
    // Jobs that finish at the same moment may each leave the other's: the bound is exact but for those.
    const bound = KEEP_DONE.count + queue.concurrency
    await expect.poll(async () => (await jobs())?.getCompletedCount()).toBeLessThanOrEqual(bound)
  })

  test('is not seen by another fleet in the same store', async () => {
    const otherFleet = { ...home, fleet: `${home.fleet}-other` }
    startConsumer(async () => done(), otherFleet)
    await ring(randomUUID())
    const others = new Producer(openTestStore(otherFleet, { role: 'producer', events }))
    try {
      await others.ring(queue, { canaryId: randomUUID() })
      await events.until('job.done')
      expect(await countOf('waiting')).toBe(1)
    } finally {
      await others.close()
    }
  })
})

test('a payload schema with extra fields is refused, so that nobody smuggles a row into a job', () => {
  expect(canaryQueue.payload).toBeInstanceOf(z.ZodObject)
  expect(canaryQueue.payload.safeParse({ canaryId: randomUUID(), sandbox: {} }).success).toBe(false)
})
