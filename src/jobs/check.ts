import { claimChecks, recordViolations } from '../db/checks.ts'
import { findViolations } from '../db/invariants.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { JobDeps } from './operation.ts'

type Deps = Pick<JobDeps, 'db' | 'fleet' | 'clock' | 'events'> & { housekeeping: Housekeeping }

/**
 * Looks whether what must always be true is, for the next sandboxes: whatever the constraints keep, and what no constraint can. A
 * few at a time, for a moment of every tick, so that it costs next to nothing and everything comes up again and again.
 *
 * On two workers at once: each gets others. Crashed, or too slow: those come up in the next round.
 */
export async function checkInvariants(deps: Deps, signal: AbortSignal): Promise<void> {
  const { db, fleet, clock, events, housekeeping } = deps
  const untilMs = performance.now() + housekeeping.checkMs
  let checked = 0
  try {
    for (let isEnd = false; !isEnd && !signal.aborted && performance.now() < untilMs; ) {
      const page = await claimChecks(db, { fleet, max: housekeeping.checkBatch, clock })
      isEnd = page.isEnd
      const { sandboxIds } = page
      if (sandboxIds.length === 0) continue
      const violations = await findViolations(db, { sandboxIds })
      checked += sandboxIds.length
      const known = await recordViolations(db, { fleet, sandboxIds, violations, clock })
      for (const violation of known) events.emit('invariant.violated', violation)
    }
  } catch (error) {
    events.emit('invariant.unchecked', { error })
  }
  if (checked > 0) events.emit('invariant.checked', { sandboxes: checked })
}
