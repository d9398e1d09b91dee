import type { Sabotage } from '../../../simulate/world.ts'

/** The queue is taken for the truth: what it has lost, nobody looks for. */
export const sabotage: Sabotage = {
  settleMs: 300_000,
  statement: (text) =>
    /\/\* (claim_unheard|claim_unfollowed|find_overdue) \*\//.test(text)
      ? text.replace(/where (\w+\.)?fleet = /, 'where false and $1fleet = ')
      : text,
}
