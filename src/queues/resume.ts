import { defineOperationQueue } from './operation.ts'

/** Wakes a sandbox. Somebody is waiting for it: a queue of its own, so that nothing stands before it. */
export const resumeQueue = defineOperationQueue({
  name: 'resume',
  attemptsMax: 2,
  backoff: { kind: 'fixed', delayMs: 5_000 },
  concurrency: 64,
})
