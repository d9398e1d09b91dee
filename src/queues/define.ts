import { z } from 'zod'
import { SandmanError } from '../errors.ts'
import type { QueueName } from './names.ts'

export type Backoff =
  | { kind: 'fixed'; delayMs: number }
  /** Doubles with each attempt. Jitter is the share of the delay that is random, so that a crowd does not come back as one. */
  | { kind: 'exponential'; delayMs: number; jitter: number }

/** Everything there is to know about a queue. What a field leaves to BullMQ is spelled out in `bullmq/`, once for all queues. */
export type QueueDefinition<Payload = unknown> = {
  name: QueueName
  /** Ids only, never a copy of a row: the row is the truth. Checked on the way in and on the way out. */
  payload: z.ZodType<Payload>
  /** Rings with the same key fold into one while that one waits. A ring during the work is kept and rings again after it. */
  dedupeKey(payload: Payload): string
  attemptsMax: number
  backoff: Backoff
  /** Jobs of this queue that one worker process works on at a time. */
  concurrency: number
  /** How long a worker may be silent before its job is given to another. Renewed at half of this. */
  lockMs: number
  /** How often each worker looks for jobs of this queue that others left behind. */
  stalledCheckMs?: number
  /** Its jobs last longer than any grace period: a worker that stops hands them over at once. */
  handsOverAtOnce?: true
  /** Its jobs are made by schedules, so often. */
  everyMs?: number
}

/** Finished jobs are kept to be looked at, not for ever. The ledger in Postgres is the history. */
export const KEEP_DONE = { count: 1_000, ageSeconds: 3_600 }
export const KEEP_FAILED = { count: 5_000, ageSeconds: 7 * 86_400 }

export function defineQueue<Schema extends z.ZodType>(
  definition: Omit<QueueDefinition<z.output<Schema>>, 'payload'> & { payload: Schema },
): QueueDefinition<z.output<Schema>> {
  return definition as QueueDefinition<z.output<Schema>>
}

/** The payload as the queue defines it, or an error that says which field is wrong. */
export function parsePayload<Payload>(queue: QueueDefinition<Payload>, data: unknown): Payload {
  const parsed = queue.payload.safeParse(data)
  if (parsed.success) return parsed.data
  throw new SandmanError(
    'payload_invalid',
    `A job of queue ${queue.name} cannot be read: ${z.prettifyError(parsed.error)}`,
    { details: { queue: queue.name } },
  )
}
