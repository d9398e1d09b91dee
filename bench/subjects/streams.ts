/** A worker in a process of its own that follows agents which write. Started with `--expose-gc`, so that only what is needed is counted. */
import { createWorker } from '../../src/index.ts'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { writingBackend } from '../writing-backend.ts'
import { serve } from './serve.ts'

export type Memory = { rssKb: number; heapKb: number; followed: number }

await serve(async ({ databaseUrl, redisUrl, fleet }) => {
  let followed = 0
  const worker = await createWorker({
    databaseUrl,
    ...(redisUrl !== undefined && { redisUrl }),
    fleet,
    backends: [writingBackend()],
    queues: [...QUEUE_NAMES],
    onEvent({ name }) {
      if (name === 'execution.followed') followed++
      if (name === 'execution.ended') followed--
    },
  })
  return {
    async memory(): Promise<Memory> {
      globalThis.gc?.()
      const { rss, heapUsed } = process.memoryUsage()
      return { rssKb: rss / 1_024, heapKb: heapUsed / 1_024, followed }
    },
    stop: () => worker.stop(),
  }
})
