import { z } from 'zod'
import { idPattern } from '../sandbox/ids.ts'
import { defineQueue, type QueueDefinition } from './define.ts'

/** What the jobs of all verbs carry: which operation to look at. What to do there stands in its row. */
const payload = z.strictObject({ operationId: z.string().regex(idPattern('operation')) })

export type OperationPayload = z.output<typeof payload>

/** Doubles from a second, half of it by chance. */
export const PATIENTLY = { kind: 'exponential', delayMs: 1_000, jitter: 0.5 } as const

export function defineOperationQueue(
  verb: Pick<QueueDefinition, 'name' | 'attemptsMax' | 'backoff' | 'concurrency'>,
): QueueDefinition<OperationPayload> {
  return defineQueue({ payload, dedupeKey: ({ operationId }) => operationId, lockMs: 10_000, ...verb })
}
