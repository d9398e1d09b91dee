import { findViolations, INVARIANTS } from '../../src/db/invariants.ts'
import { FLEET } from '../world.ts'
import type { Check } from './all.ts'

/** What the database itself can say, at every moment. */
export const checkInvariants: Check = async ({ db, found }) => {
  for (const { invariant, sandboxId, seen } of await findViolations(db, { fleet: FLEET }))
    found(INVARIANTS[invariant], sandboxId, seen)
}
