import { defineOperationQueue, PATIENTLY } from './operation.ts'

/** Ends a sandbox: kill and destroy. The most stubborn queue, because what it gives up on goes on costing money. */
export const teardownQueue = defineOperationQueue({
  name: 'teardown',
  attemptsMax: 8,
  backoff: PATIENTLY,
  concurrency: 16,
})
