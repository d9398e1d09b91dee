import { checkAnswers } from './checks/answers.ts'
import { checkCheckpoints } from './checks/checkpoints.ts'
import { checkCourse } from './checks/course.ts'
import { checkExecutions } from './checks/executions.ts'
import { type Evidence, type Flaw, flaw } from './checks/flaw.ts'
import { checkInstances } from './checks/instances.ts'
import { checkPromises } from './checks/promises.ts'

/** Everything that is not as it must be. An empty list is the only good one. */
export function findFlaws(evidence: Evidence): Flaw[] {
  const { ledger, truth, undone, fallen } = evidence
  return [
    ...checkAnswers(evidence),
    ...checkPromises(evidence),
    ...checkCourse(evidence),
    ...checkInstances(evidence),
    ...checkCheckpoints(evidence),
    ...checkExecutions(evidence),
    ...truth.remains.map((name) => flaw('leaked', undefined, `the local backend has left ${name}`)),
    ...ledger.violations.map(({ sandboxId, invariant, seen }) => flaw('wrong', sandboxId, `${invariant}: ${seen}`)),
    ...undone.map(({ sandboxId, says }) => flaw('wrong', sandboxId, `asked in the quiet, and not done: ${says}`)),
    ...fallen.map((says) => flaw('wrong', undefined, says)),
  ]
}
