import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { claimUnheard } from '../db/ring-due.ts'
import { claimUnfollowed } from '../db/streams.ts'
import { isSandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { QUEUE_OF_KIND } from '../queues/catalog.ts'
import { streamsQueue } from '../queues/streams.ts'
import type { Kind } from '../sandbox/judge.ts'
import { keepDoing } from './timer.ts'

/** Operations that are rung for in one go. A queue that is away costs one of them its two seconds, and not all. */
const BATCH_MAX = 100
const EVERY_MS = 2_000

export type Due = { operationId: string; kind: Kind }

type Deps = { db: Db; producer: Producer; fleet: string; clock: Clock; events: Events }

/**
 * Tells workers that there is an operation to look at. The operation is a row by then, so a ring that nobody hears costs time
 * and no work: it says so and returns, and whoever looks for unheard ones next rings again.
 */
export async function ring({ producer, events }: Deps, { operationId, kind }: Due): Promise<'rung' | 'unheard'> {
  try {
    await producer.ring(QUEUE_OF_KIND[kind], { operationId })
    return 'rung'
  } catch (error) {
    if (!isSandmanError(error, 'queue_unreachable')) throw error
    events.emit('operation.unheard', { operationId, kind, error })
    return 'unheard'
  }
}

/** The same for executions. A queue that is away is asked once. */
export async function ringForExecutions(
  { producer, events }: Deps,
  executionIds: string[],
): Promise<'rung' | 'unheard'> {
  try {
    await Promise.all(executionIds.map((executionId) => producer.ring(streamsQueue, { executionId })))
    return 'rung'
  } catch (error) {
    if (!isSandmanError(error, 'queue_unreachable')) throw error
    events.emit('execution.unheard', { executionIds, error })
    return 'unheard'
  }
}

/** Rings for executions that nobody is heard to follow, and says for how many. */
export async function ringForUnfollowed(deps: Deps, isStopped = () => false): Promise<number> {
  const executionIds = await claimUnfollowed(deps.db, { fleet: deps.fleet, max: BATCH_MAX, clock: deps.clock })
  if (executionIds.length === 0 || isStopped()) return 0
  if ((await ringForExecutions(deps, executionIds)) === 'unheard') return 0
  deps.events.emit('execution.rung_again', { executionIds })
  return executionIds.length
}

/** Rings for what nobody has heard of, or what its worker has left behind, and says for how many. */
export async function ringForUnheard(deps: Deps, isStopped = () => false): Promise<number> {
  const unheard = await claimUnheard(deps.db, { fleet: deps.fleet, max: BATCH_MAX, clock: deps.clock })
  let rung = 0
  for (const due of unheard) {
    // Those that are left out here come up again.
    if (isStopped() || (await ring(deps, due)) === 'unheard') break
    deps.events.emit('operation.rung_again', due)
    rung++
  }
  return rung
}

/**
 * Looks again and again, in every worker, on a timer of its own and not in a scheduled job: a queue that has forgotten
 * everything has forgotten its schedules too.
 */
export function keepRinging(deps: Deps, { everyMs = EVERY_MS } = {}): { stop(): Promise<void> } {
  return keepDoing(async (isStopped) => {
    try {
      await ringForUnheard(deps, isStopped)
      await ringForUnfollowed(deps, isStopped)
    } catch (error) {
      deps.events.emit('bell.failed', { error })
    }
  }, everyMs)
}
