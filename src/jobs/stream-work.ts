import type { Agent, Backend } from '../backends/backend.ts'
import { endExecution } from '../db/executions.ts'
import type { Requested } from '../db/request.ts'
import type { OperationRow } from '../db/schema.ts'
import type { TakenExecution } from '../db/streams.ts'
import { done, type Outcome, superseded } from '../queues/outcome.ts'
import type { ExecutionEnd } from '../sandbox/executions.ts'
import type { Kind, Options } from '../sandbox/judge.ts'
import { askFor } from './ask.ts'
import type { JobDeps } from './operation.ts'
import type { Provider } from './provider.ts'
import type { RollCall } from './roll-call.ts'
import type { Scribe } from './scribe.ts'

export type StreamDeps = JobDeps & { scribe: Scribe; rollCall: RollCall }

/** One worker's turn at one execution. */
export type StreamWork = Pick<TakenExecution, 'execution' | 'sandbox'> & {
  deps: StreamDeps
  backend: Backend
  provider: Provider
  signal: AbortSignal
}

/** The agent that an execution follows: one of its own, or without a command the one that the sandbox was made with. */
export function agentOf({ execution, sandbox }: Pick<StreamWork, 'execution' | 'sandbox'>): Agent {
  const key = execution.command === null ? undefined : execution.id
  return { ref: sandbox.provider_ref as string, incarnation: execution.incarnation as string, key }
}

/** Asks for an operation on the execution's own sandbox. When it settles, the execution is rung for. */
export async function ask(
  { deps, sandbox, execution }: StreamWork,
  kind: Kind,
  options: Options,
): Promise<OperationRow> {
  const cause = { by: 'execution', execution_id: execution.id } as const
  const requested = await askFor(deps, { sandboxId: sandbox.id, kind, options, cause })
  return (requested as Requested).operation // it is there: its execution is
}

/**
 * Writes down the end, once, and tells those who wait for it. `outputEndedAtMs`: when the output came to its end, by the clock of
 * `performance`.
 */
export async function finish(
  { deps, execution, sandbox }: StreamWork,
  end: ExecutionEnd,
  outputEndedAtMs?: number,
): Promise<Outcome> {
  const { db, clock, events, announce } = deps
  const ended = await endExecution(db, { id: execution.id, end, fence: execution.fence, clock })
  if (!ended) return superseded('somebody else follows it, or it has ended')
  events.emit('execution.ended', {
    executionId: execution.id,
    sandboxId: sandbox.id,
    backend: sandbox.backend,
    ...(outputEndedAtMs !== undefined && { lagMs: Math.round(performance.now() - outputEndedAtMs) }),
    status: end.status,
    reason: end.reason,
    ...(end.exitCode !== undefined && { exitCode: end.exitCode }),
    ...(end.message !== undefined && { message: end.message }),
  })
  announce([execution.id])
  if (ended.awaitedBy) await deps.ring(ended.awaitedBy)
  return done()
}
