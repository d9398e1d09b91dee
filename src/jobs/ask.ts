import { pauseThatMayWait } from '../db/executions.ts'
import { type Requested, requestIf, type SandboxRequest } from '../db/request.ts'
import type { SandboxRow } from '../db/schema.ts'
import type { Events } from '../events.ts'
import type { JobDeps } from './operation.ts'

/**
 * Asks for an operation as an app would: the row first, and then the bell. Undefined when there is no such sandbox, or it is not
 * any more what it was asked for.
 */
export async function askFor(
  deps: Pick<JobDeps, 'db' | 'fleet' | 'clock' | 'ring' | 'events'>,
  asked: Omit<SandboxRequest, 'fleet' | 'clock'>,
): Promise<Requested | undefined> {
  const { db, fleet, clock } = deps
  const requested = await requestIf(db, { ...asked, fleet, clock })
  if (requested) await ringFor(deps, requested)
  return requested
}

/** A request was written down, and now those are told who have to do something about it. */
export async function ringFor(deps: Pick<JobDeps, 'ring' | 'events'>, requested: Requested): Promise<void> {
  tellOf(deps.events, requested)
  const { answer, operation, sandbox } = requested
  if (answer === 'work') await deps.ring({ operationId: operation.id, kind: operation.kind })
  if (answer === 'wait') await ringForPause(deps, sandbox)
}

/** One that waits for executions gives way now. */
export async function ringForPause({ ring }: Pick<JobDeps, 'ring'>, sandbox: SandboxRow): Promise<void> {
  const pause = pauseThatMayWait(sandbox)
  if (pause) await ring(pause)
}

/** What became of a request. One that joined another, or was repeated, is told of once, with the one that it joined. */
function tellOf(events: Events, { answer, operation, sandbox, left }: Requested): void {
  const told = { operationId: operation.id, sandboxId: sandbox.id, kind: operation.kind, backend: sandbox.backend }
  if (answer === 'work')
    events.emit('operation.accepted', { ...told, ...(left && { from: left.state, restedMs: left.ms }) })
  if (answer === 'already_done' || answer === 'refused')
    events.emit('operation.answered', { ...told, outcome: answer, errorType: operation.error?.error_type })
}
