import { z } from 'zod'
import { defineQueue } from './define.ts'

/** One tick of the reaper, made by a schedule. What a tick does not get done, the next one does: it is not tried again. */
export const reaperQueue = defineQueue({
  name: 'reaper',
  payload: z.strictObject({}),
  dedupeKey: () => 'tick',
  attemptsMax: 1,
  backoff: { kind: 'fixed', delayMs: 1_000 },
  concurrency: 1,
  lockMs: 10_000,
  everyMs: 30_000,
})
