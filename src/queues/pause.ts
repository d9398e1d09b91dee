import { defineOperationQueue, PATIENTLY } from './operation.ts'

/** Puts a sandbox to sleep. Asked for by apps, and by the reaper when a sandbox idles. */
export const pauseQueue = defineOperationQueue({
  name: 'pause',
  attemptsMax: 5,
  backoff: PATIENTLY,
  concurrency: 16,
})
