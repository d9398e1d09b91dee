import type { Db } from '../../src/db/pool.ts'
import type { Told } from '../told.ts'
import type { World } from '../world.ts'
import { checkAnswers } from './answers.ts'
import { checkCheckpoints, checkPromised, checkWhole } from './checkpoints.ts'
import { checkExecutions } from './executions.ts'
import { checkGone } from './gone.ts'
import { checkInstances } from './instances.ts'
import { checkInvariants } from './invariants.ts'
import { checkRest } from './rest.ts'

/** What a check looks at, and whom it tells. */
export type Scene = { world: World; db: Db; told: Told; found(rule: string, about: string, says: string): void }
export type Check = (scene: Scene) => Promise<void>

/** What must be true at every moment; what becomes true when everything comes to rest; and what is looked at then. */
const CHECKS: Record<'always' | 'at rest' | 'in the end', readonly Check[]> = {
  always: [checkInvariants, checkWhole],
  'at rest': [checkRest, checkInstances, checkCheckpoints],
  'in the end': [checkAnswers, checkPromised, checkGone, checkExecutions],
}

/** Looks at everything, and says how much is wrong. As a trial, nothing of it is written down. */
export async function checkAll(
  { world, db, told }: { world: World; db: Db; told: Told },
  when: keyof typeof CHECKS,
  { isTrial = false } = {},
): Promise<number> {
  let count = 0
  const found = (rule: string, about: string, says: string) => {
    count++
    if (!isTrial) world.findings.add(rule, about, says)
  }
  for (const check of CHECKS[when]) await check({ world, db, told, found })
  return count
}
