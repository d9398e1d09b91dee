import { findOverdue } from '../db/ring-due.ts'
import { forEach } from '../each.ts'
import { performOperation } from './operation.ts'
import type { Tick } from './tick.ts'
import { VERBS } from './verbs.ts'

/**
 * Operations that nobody has worked on for long: rung for again and again, and nobody came, because no worker takes their queue
 * or the queue does not work. They are worked on right here, without a queue: as always, by looking first, and settling what is true.
 */
export async function reconcile({ deps, hold, signal }: Tick): Promise<void> {
  const { db, clock, events, housekeeping } = deps
  const { fleet, backend } = hold
  const { overdueMs: olderThanMs, overdueBatch: max } = housekeeping
  const overdue = await findOverdue(db, { fleet, backend, olderThanMs, max, clock })
  if (overdue.length === 0) return
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(housekeeping.performMs)])
  await forEach(overdue, async ({ operationId, kind }) => {
    events.emit('sweep.reconciling', { operationId, kind, backend })
    // What fails here is written down with the operation, as in any attempt, and tried again by the next.
    await performOperation(deps, VERBS[kind], { operationId }, { signal: inTime }).catch(() => {})
  })
  signal.throwIfAborted()
}
