import { z } from 'zod'
import { defineQueue } from './define.ts'

/** Asks whichever worker comes first to sign a canary. Rung by `sandman dev` and `sandman doctor`. */
export const canaryQueue = defineQueue({
  name: 'canary',
  payload: z.strictObject({ canaryId: z.uuid() }),
  dedupeKey: ({ canaryId }) => canaryId,
  attemptsMax: 3,
  backoff: { kind: 'exponential', delayMs: 1_000, jitter: 0.5 },
  concurrency: 4,
  lockMs: 10_000,
})

export type CanaryPayload = z.output<typeof canaryQueue.payload>
