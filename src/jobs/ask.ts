import { pauseThatMayWait } from '../db/executions.ts'
import { type Requested, requestIf, type SandboxRequest } from '../db/request.ts'
import type { JobDeps } from './operation.ts'

/**
 * Asks for an operation as an app would: the row first, and then the bell. Undefined when there is no such sandbox, or it is not
 * any more what it was asked for.
 */
export async function askFor(
  deps: Pick<JobDeps, 'db' | 'fleet' | 'clock' | 'ring'>,
  asked: Omit<SandboxRequest, 'fleet' | 'clock'>,
): Promise<Requested | undefined> {
  const { db, fleet, clock } = deps
  const requested = await requestIf(db, { ...asked, fleet, clock })
  if (!requested) return undefined
  const { answer, operation, sandbox } = requested
  if (answer === 'work') await deps.ring({ operationId: operation.id, kind: operation.kind })
  const pause = answer === 'wait' ? pauseThatMayWait(sandbox) : undefined
  if (pause) await deps.ring(pause)
  return requested
}
