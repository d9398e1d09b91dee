/** A worker as it is in production, in a process of its own, on a provider that answers at once. */
import { createWorker } from '../../src/index.ts'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { countQuestions } from '../counting.ts'
import { moment } from '../moment.ts'
import { noopBackend } from '../noop-backend.ts'
import { Drain } from './drain.ts'
import { profiled, serve } from './serve.ts'

await serve(async (order) => {
  const { databaseUrl, redisUrl, fleet } = order
  const counts = countQuestions()
  const drain = new Drain()
  let settledAt: number[] = []
  const worker = await createWorker({
    databaseUrl,
    ...(redisUrl !== undefined && { redisUrl }),
    fleet,
    backends: [noopBackend()],
    queues: [...QUEUE_NAMES],
    onEvent({ name, fields }) {
      if (name === 'operation.settled') settledAt.push(moment())
      if (name === 'job.started') drain.began()
      if (name === 'job.done') drain.ended()
      if (name === 'job.failed' || name === 'job.gave_up') drain.failed(fields.error)
    },
  })
  return {
    drain: (count: number) => profiled(order, 'worker', () => drain.expect(count)),
    begin: async () => drain.begin(),
    progress: async () => drain.progress,
    counts: async () => counts(),
    /** When each operation has settled since this was asked for last. */
    async settledAt() {
      const told = settledAt
      settledAt = []
      return told
    },
    stop: () => worker.stop(),
  }
})
