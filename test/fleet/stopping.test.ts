import { expect, onTestFinished, test } from 'vitest'
import { startProxy } from '../support/proxy.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld } from '../support/world.ts'

describeStores('a worker that is told to stop while Postgres is silent', (kind) => {
  test('has stopped when its grace period is over, whatever it still had to say', async () => {
    const graceMs = 5_000
    const world = await createWorld(kind)
    onTestFinished(() => world.end())
    const proxy = await startProxy(world.place.databaseUrl)
    onTestFinished(() => proxy.close())
    const worker = await world.startWorker({ databaseUrl: proxy.url, graceMs })
    // What has settled is told of after that, and that notice is under way for as long as nobody answers.
    worker.events.subscribe(({ name }) => {
      if (name === 'operation.settled') proxy.hang()
    })
    await world.fleet.spawn({ backend: 'test' })
    await worker.events.until('operation.settled')
    const began = performance.now()
    await worker.stop()
    expect(performance.now() - began).toBeLessThan(graceMs)
  })
})
