import { defineOperationQueue, PATIENTLY } from './operation.ts'

/** Brings a sandbox to life. */
export const spawnQueue = defineOperationQueue({
  name: 'spawn',
  attemptsMax: 3,
  backoff: PATIENTLY,
  concurrency: 16,
})
