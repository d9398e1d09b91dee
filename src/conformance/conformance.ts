import { agentCases } from './agents.ts'
import { claimCases } from './claims.ts'
import { commandCases } from './commands.ts'
import { leaseCases } from './lease.ts'
import { lifeCases } from './life.ts'
import { listCases } from './lists.ts'
import { outputCases } from './output.ts'
import { ownershipCases } from './ownership.ts'
import { pausingCases } from './pausing.ts'
import { snapshotCases } from './snapshots.ts'
import type { Case, Subject } from './subject.ts'
import { Suite } from './suite.ts'
import { wireCases } from './wire-cases.ts'

/**
 * Every promise of the contract, as cases for any test runner:
 *
 * ```ts
 * const { cases, close } = conformance(subject)
 * for (const { about, name, run } of cases) test(`${about}: ${name}`, run)
 * afterAll(close)
 * ```
 */
export function conformance(subject: Subject): { cases: Case[]; close(): Promise<void> } {
  const suite = new Suite(subject)
  const cases = [
    claimCases,
    lifeCases,
    ownershipCases,
    commandCases,
    agentCases,
    outputCases,
    pausingCases,
    snapshotCases,
    listCases,
    leaseCases,
    wireCases,
  ].flatMap((casesOf) => casesOf(suite))
  return { cases, close: () => suite.close() }
}
