import { setTimeout as sleep } from 'node:timers/promises'
import { runningClock } from '../clock.ts'
import { findCanary, sendCanary } from '../db/canaries.ts'
import type { Db } from '../db/pool.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { canaryQueue } from '../queues/canary.ts'

const LOOK_EVERY_MS = 50

/** Sends a job all the way through the queue to a worker and back. Undefined when no worker answered in time. */
export async function flyCanary(
  { db, producer, fleet }: { db: Db; producer: Producer; fleet: string },
  withinMs: number,
): Promise<{ answeredBy: string; tookMs: number } | undefined> {
  const sentAtMs = performance.now()
  const { id } = await sendCanary(db, { fleet, clock: runningClock })
  await producer.ring(canaryQueue, { canaryId: id })
  while (performance.now() - sentAtMs < withinMs) {
    const canary = await findCanary(db, id)
    if (canary?.answered_by) return { answeredBy: canary.answered_by, tookMs: Math.round(performance.now() - sentAtMs) }
    await sleep(LOOK_EVERY_MS)
  }
  return undefined
}
