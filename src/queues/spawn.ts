import { defineQueue } from './define.ts'
import { operationKey, operationPayload } from './operation.ts'

/** Brings a sandbox to life. */
export const spawnQueue = defineQueue({
  name: 'spawn',
  payload: operationPayload,
  dedupeKey: operationKey,
  attemptsMax: 3,
  backoff: { kind: 'exponential', delayMs: 1_000, jitter: 0.5 },
  concurrency: 16,
  lockMs: 10_000,
})
