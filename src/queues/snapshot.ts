import { defineOperationQueue, PATIENTLY } from './operation.ts'

/** Copies a sandbox while it keeps running. */
export const snapshotQueue = defineOperationQueue({
  name: 'snapshot',
  attemptsMax: 5,
  backoff: PATIENTLY,
  concurrency: 16,
})
