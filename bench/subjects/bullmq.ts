/** Workers of BullMQ alone: as many as a worker of ours has, on the same store with the same settings, whose jobs do nothing. */
import { Events } from '../../src/events.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { QUEUES } from '../../src/queues/catalog.ts'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { moment } from '../moment.ts'
import { Drain } from './drain.ts'
import { Line } from './line.ts'
import { profiled, serve } from './serve.ts'

await serve(async (order) => {
  const drain = new Drain()
  const completions = new Line<number>()
  const store = openStore({ ...order, role: 'consumer', consumers: QUEUE_NAMES.length, events: new Events() })
  const workers = QUEUE_NAMES.map((name) => {
    const { concurrency, lockMs } = QUEUES[name]
    const worker = store.worker(
      name,
      async () => {
        drain.began()
        drain.ended()
      },
      { concurrency, lockDuration: lockMs },
    )
    worker.on('completed', () => completions.add(moment()))
    worker.on('error', (error) => drain.failed(error))
    return worker
  })
  await Promise.all(workers.map((worker) => worker.waitUntilReady()))
  return {
    drain: (count: number) => profiled(order, 'bullmq', () => drain.expect(count)),
    /** When the next job was done that nobody was told of yet. */
    nextCompletedAt: () => completions.next(),
    async stop() {
      await Promise.all(workers.map((worker) => worker.close()))
      await store.close()
    },
  }
})
