import { defineQueue } from './define.ts'
import { operationKey, operationPayload } from './operation.ts'

/** Wakes a sandbox. Somebody is waiting for it: a queue of its own, so that nothing stands before it. */
export const resumeQueue = defineQueue({
  name: 'resume',
  payload: operationPayload,
  dedupeKey: operationKey,
  attemptsMax: 2,
  backoff: { kind: 'fixed', delayMs: 5_000 },
  concurrency: 64,
  lockMs: 10_000,
})
