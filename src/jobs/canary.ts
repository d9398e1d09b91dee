import type { Clock } from '../clock.ts'
import { answerCanary } from '../db/canaries.ts'
import type { Db } from '../db/pool.ts'
import type { CanaryPayload } from '../queues/canary.ts'
import { done, type Outcome, superseded } from '../queues/outcome.ts'

type Deps = { db: Db; clock: Clock; fleet: string; worker: string }

/**
 * Signs a canary with this worker's name.
 *
 * Delivered twice: the second finds it signed, and stops.
 * Crash before the signature: the job is given to another worker, which signs.
 */
export async function signCanary(deps: Deps, { canaryId }: CanaryPayload): Promise<Outcome> {
  const signed = await answerCanary(deps.db, { id: canaryId, fleet: deps.fleet, by: deps.worker, clock: deps.clock })
  return signed ? done() : superseded('the canary is signed already, or nobody waits for it any more')
}
