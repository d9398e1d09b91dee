import {
  type ExecutionRequest,
  endExecution,
  type FoundExecution,
  requestCancel,
  requestExecution,
} from '../db/executions.ts'
import { type Requested, request, requestSpawn, type SandboxRequest, type SpawnRequest } from '../db/request.ts'
import type { ExecutionRow } from '../db/schema.ts'
import { ringFor, ringForPause } from '../jobs/ask.ts'
import { inSpan, tagIds } from '../tracing.ts'
import { type Due, ring, ringForExecutions } from './bell.ts'

type Deps = Parameters<typeof ring>[0]
type Given<Asked> = Omit<Asked, 'fleet' | 'clock'>

/** Asks something of a sandbox: first the row, and only then the bell. Once the row is there, the request is accepted. */
export async function ask(deps: Deps, asked: Given<SandboxRequest>): Promise<Requested> {
  return asSpan(deps, asked.kind, async () =>
    tellWorkers(deps, await request(deps.db, { ...asked, fleet: deps.fleet, clock: deps.clock })),
  )
}

export async function askToSpawn(deps: Deps, asked: Given<SpawnRequest>): Promise<Requested> {
  return asSpan(deps, 'spawn', async () =>
    tellWorkers(deps, await requestSpawn(deps.db, { ...asked, fleet: deps.fleet, clock: deps.clock })),
  )
}

/** A trace goes on from here: a job that is rung for carries it along. */
function asSpan<T>({ fleet }: Deps, asked: string, work: () => Promise<T>): Promise<T> {
  return inSpan(`fleet ${asked}`, { ids: { fleet } }, work)
}

async function tellWorkers(deps: Deps, requested: Requested): Promise<Requested> {
  const { sandbox, operation, answer } = requested
  tagIds({ sandboxId: sandbox.id, operationId: operation.id, answer })
  await ringFor(ringing(deps), requested)
  return requested
}

function ringing(deps: Deps) {
  return { events: deps.events, ring: (due: Due) => ring(deps, due) }
}

export async function askToExecute(deps: Deps, asked: Given<ExecutionRequest>): Promise<FoundExecution> {
  return asSpan(deps, 'execute', async () => {
    const found = await requestExecution(deps.db, { ...asked, fleet: deps.fleet, clock: deps.clock })
    tagIds({ sandboxId: found.sandbox.id, executionId: found.execution.id })
    if (found.execution.status === 'queued') await ringForExecutions(deps, [found.execution.id])
    await ringForPause(ringing(deps), found.sandbox)
    return found
  })
}

/** One that has not begun is cancelled at once. Of one that runs, whoever follows it stops the agent first. */
export async function askToCancel(deps: Deps, executionId: string): Promise<ExecutionRow | undefined> {
  const { db, fleet, clock } = deps
  const [execution] = await requestCancel(db, { fleet, id: executionId }, clock)
  if (execution?.status !== 'queued') return execution
  const end = { status: 'cancelled', reason: 'cancelled', message: 'It was cancelled before it began.' } as const
  const ended = await endExecution(db, { id: executionId, end, only: 'queued', clock })
  if (ended) {
    const { status, reason } = end
    deps.events.emit('execution.interrupted', { executionId, status, reason, backend: ended.backend })
  }
  if (ended?.awaitedBy) await ring(deps, ended.awaitedBy)
  return ended?.execution ?? execution
}
