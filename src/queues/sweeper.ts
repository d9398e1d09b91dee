import { z } from 'zod'
import { defineQueue } from './define.ts'

/**
 * One tick of the sweeper, for one backend: made by a schedule, or asked for by somebody who waits for a whole round. Without
 * `act` it looks, writes down what it saw, and does nothing about it.
 */
export const sweeperQueue = defineQueue({
  name: 'sweeper',
  payload: z.strictObject({ backend: z.string().min(1).max(64), act: z.boolean(), asked: z.boolean() }),
  dedupeKey: ({ backend, act, asked }) => `${backend} ${act ? 'acts' : 'looks'} ${asked ? 'when asked' : 'by itself'}`,
  attemptsMax: 1,
  backoff: { kind: 'fixed', delayMs: 1_000 },
  concurrency: 4,
  lockMs: 10_000,
  everyMs: 60_000,
})

export type SweeperPayload = z.output<typeof sweeperQueue.payload>
