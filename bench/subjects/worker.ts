/** A worker as it is in production, in a process of its own, on a provider that answers at once. */
import { createWorker } from '../../src/index.ts'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { noopBackend } from '../noop-backend.ts'
import { Drain } from './drain.ts'
import { profiled, serve } from './serve.ts'

await serve(async (order) => {
  const { databaseUrl, redisUrl, fleet } = order
  const drain = new Drain()
  const worker = await createWorker({
    databaseUrl,
    ...(redisUrl !== undefined && { redisUrl }),
    fleet,
    backends: [noopBackend()],
    queues: [...QUEUE_NAMES],
    onEvent({ name, fields }) {
      if (name === 'job.started') drain.began()
      if (name === 'job.done') drain.ended()
      if (name === 'job.failed' || name === 'job.gave_up') drain.failed(fields.error)
    },
  })
  return {
    drain: (count: number) => profiled(order, 'worker', () => drain.expect(count)),
    stop: () => worker.stop(),
  }
})
