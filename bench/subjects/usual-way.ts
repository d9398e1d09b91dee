/** A worker as most projects have it, in a process of its own: see `usual-way.ts` above. */
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import pg from 'pg'
import { pauseQueue } from '../../src/queues/pause.ts'
import { noopBackend } from '../noop-backend.ts'
import { pausingOf, performTheUsualWay, type UsualJob } from '../usual-way.ts'
import { Drain } from './drain.ts'
import { profiled, serve } from './serve.ts'

await serve(async (order) => {
  const { databaseUrl, redisUrl = '', fleet } = order
  const drain = new Drain()
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: null })
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 })
  const pausing = pausingOf(noopBackend())
  const worker = new Worker<UsualJob>(
    fleet,
    async ({ data }) => {
      drain.began()
      await performTheUsualWay({ redis, pool, pausing }, data)
      drain.ended()
    },
    { connection: redis, concurrency: pauseQueue.concurrency },
  )
  worker.on('failed', (_job, error) => drain.failed(error))
  await worker.waitUntilReady()
  return {
    drain: (count: number) => profiled(order, 'usual-way', () => drain.expect(count)),
    async stop() {
      await worker.close()
      await pool.end()
      redis.disconnect()
    },
  }
})
