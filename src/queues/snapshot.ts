import { defineQueue } from './define.ts'
import { operationKey, operationPayload } from './operation.ts'

/** Copies a sandbox while it keeps running. */
export const snapshotQueue = defineQueue({
  name: 'snapshot',
  payload: operationPayload,
  dedupeKey: operationKey,
  attemptsMax: 5,
  backoff: { kind: 'exponential', delayMs: 1_000, jitter: 0.5 },
  concurrency: 16,
  lockMs: 10_000,
})
