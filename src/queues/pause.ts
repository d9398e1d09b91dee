import { defineQueue } from './define.ts'
import { operationKey, operationPayload } from './operation.ts'

/** Puts a sandbox to sleep. Asked for by apps, and by the reaper when a sandbox idles. */
export const pauseQueue = defineQueue({
  name: 'pause',
  payload: operationPayload,
  dedupeKey: operationKey,
  attemptsMax: 5,
  backoff: { kind: 'exponential', delayMs: 1_000, jitter: 0.5 },
  concurrency: 16,
  lockMs: 10_000,
})
