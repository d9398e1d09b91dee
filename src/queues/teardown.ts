import { defineQueue } from './define.ts'
import { operationKey, operationPayload } from './operation.ts'

/** Ends a sandbox: kill and destroy. The most stubborn queue, because what it gives up on goes on costing money. */
export const teardownQueue = defineQueue({
  name: 'teardown',
  payload: operationPayload,
  dedupeKey: operationKey,
  attemptsMax: 8,
  backoff: { kind: 'exponential', delayMs: 1_000, jitter: 0.5 },
  concurrency: 16,
  lockMs: 10_000,
})
