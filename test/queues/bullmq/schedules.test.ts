import { afterAll, beforeAll, expect, test } from 'vitest'
import { Events } from '../../../src/events.ts'
import { Producer } from '../../../src/queues/bullmq/producer.ts'
import { reaperQueue } from '../../../src/queues/reaper.ts'
import { sweeperQueue } from '../../../src/queues/sweeper.ts'
import { createStoreHome, describeStores, openTestStore, type StoreHome } from '../../support/stores.ts'

describeStores('schedules', (kind) => {
  let home: StoreHome
  let producers: Producer[]
  beforeAll(async () => {
    home = await createStoreHome(kind)
    producers = Array.from(
      { length: 4 },
      () => new Producer(openTestStore(home, { role: 'producer', events: new Events() })),
    )
  })
  afterAll(async () => {
    await Promise.all(producers.map((producer) => producer.close()))
    await home.drop()
  })

  async function look(name: 'reaper' | 'sweeper') {
    const found = (await producers[0]?.all())?.find((open) => open.name === name)
    if (!found) throw new Error(`there is no queue ${name}`)
    const jobs = await found.queue.getJobs(['wait', 'delayed', 'prioritized'])
    return { schedulers: await found.queue.getJobSchedulers(), jobs, queue: found.queue }
  }

  test('are made once, however many workers ask for them, and do not begin anew when they are asked for again', async () => {
    const made = await Promise.all(producers.map((producer) => producer.schedule(reaperQueue, 'reaper', {})))
    expect(made).toContain('made')
    const { schedulers, jobs } = await look('reaper')
    expect(schedulers).toMatchObject([{ key: 'reaper', every: reaperQueue.everyMs }])
    expect(jobs.length).toBeLessThanOrEqual(producers.length) // a tick too many does no harm, a schedule too many would go on
    for (const producer of producers) expect(await producer.schedule(reaperQueue, 'reaper', {})).toBe('there')
    expect((await look('reaper')).schedulers[0]?.next).toBe(schedulers[0]?.next)
    expect((await look('reaper')).jobs.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
  })

  test('of several backends stand beside each other, and what they carry is checked', async () => {
    const [producer] = producers as [Producer]
    for (const backend of ['one', 'two'])
      await producer.schedule(sweeperQueue, `sweeper-${backend}`, { backend, act: true, asked: false })
    const { schedulers } = await look('sweeper')
    expect(schedulers.map(({ key }) => key).toSorted()).toEqual(['sweeper-one', 'sweeper-two'])
    await expect(producer.schedule(sweeperQueue, 'x', { backend: '' } as never)).rejects.toMatchObject({
      code: 'payload_invalid',
    })
  })

  test('that were removed, or asked for with something else, are made anew', async () => {
    const [producer] = producers as [Producer]
    const payload = { backend: 'three', act: true, asked: false }
    expect(await producer.schedule(sweeperQueue, 'three', payload)).toBe('made')
    expect(await producer.schedule(sweeperQueue, 'three', payload)).toBe('there')
    expect(await producer.schedule(sweeperQueue, 'three', { ...payload, act: false })).toBe('made')
    const { queue } = await look('sweeper')
    await queue.removeJobScheduler('three')
    expect(await producer.schedule(sweeperQueue, 'three', payload)).toBe('made')
  })
})
