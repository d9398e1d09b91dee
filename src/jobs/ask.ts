import { pauseThatMayWait } from '../db/executions.ts'
import { type Requested, requestIf, type SandboxRequest } from '../db/request.ts'
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
  if (!requested) return undefined
  tellOf(deps.events, requested)
  const { answer, operation, sandbox } = requested
  if (answer === 'work') await deps.ring({ operationId: operation.id, kind: operation.kind })
  const pause = answer === 'wait' ? pauseThatMayWait(sandbox) : undefined
  if (pause) await deps.ring(pause)
  return requested
}

/** What became of a request. One that joined another, or was repeated, is told of once, with the one that it joined. */
export function tellOf(events: Events, { answer, operation, sandbox, left }: Requested): void {
  const told = { operationId: operation.id, sandboxId: sandbox.id, kind: operation.kind, backend: sandbox.backend }
  if (answer === 'work')
    events.emit('operation.accepted', { ...told, ...(left && { from: left.state, restedMs: left.ms }) })
  if (answer === 'already_done' || answer === 'refused')
    events.emit('operation.answered', { ...told, outcome: answer, errorType: operation.error?.error_type })
}
