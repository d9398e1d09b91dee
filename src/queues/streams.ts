import { z } from 'zod'
import { idPattern } from '../sandbox/ids.ts'
import { defineQueue } from './define.ts'

/**
 * Follows an execution from its start to its end. A job here lasts as long as its agent runs and only waits, so one worker has
 * thousands. Its lock is short, so that another worker goes on within seconds where one has died; that is no failure.
 */
export const streamsQueue = defineQueue({
  name: 'streams',
  payload: z.strictObject({ executionId: z.string().regex(idPattern('execution')) }),
  dedupeKey: ({ executionId }) => executionId,
  attemptsMax: 10,
  backoff: { kind: 'fixed', delayMs: 1_000 },
  concurrency: 4_000,
  lockMs: 6_000,
  stalledCheckMs: 2_000,
  handsOverAtOnce: true,
})

export type StreamsPayload = z.output<typeof streamsQueue.payload>
