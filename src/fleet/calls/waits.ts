import { type FoundExecution, findExecutions } from '../../db/executions.ts'
import { type FoundOperation, findOperations } from '../../db/operations.ts'
import { withDeadline } from '../../deadline.ts'
import type { Answer, ExecutionAnswer } from '../fleet.ts'
import { viewExecution, viewOperation, viewSandbox } from '../views.ts'
import type { FleetContext } from './context.ts'

/** How much longer than it wanted to wait a caller is kept for the latest news. */
const LAST_LOOK_MS = 1_000

/** How long a caller wants to wait, and how it says that it has had enough. */
export type Waiting = { wait?: number | undefined; signal?: AbortSignal | undefined }

/** The operation once it has settled, or as it is when the time is over. */
export async function untilSettled(
  context: FleetContext,
  found: FoundOperation,
  { wait = 0, signal }: Waiting,
): Promise<Answer> {
  const { db, fleet, room } = context
  const { id, settled_at } = found.operation
  if (settled_at !== null || wait === 0) return answer(found)
  const settled = await room.operation(id, { withinMs: wait, signal })
  return answer(settled ?? (await lookAgain(context, () => findOperations(db, { fleet, ids: [id] }))) ?? found)
}

/** The execution once it has ended, or as it is when the time is over. */
export async function untilEnded(
  context: FleetContext,
  found: FoundExecution,
  { wait = 0, signal }: Waiting,
): Promise<ExecutionAnswer> {
  const { db, fleet, room } = context
  const { id, ended_at } = found.execution
  if (ended_at !== null || wait === 0) return executionAnswer(found)
  const ended = await room.execution(id, hasEnded, { withinMs: wait, signal })
  return executionAnswer(ended ?? (await lookAgain(context, () => findExecutions(db, { fleet, ids: [id] }))) ?? found)
}

/** What is known is told also when the database cannot be asked any more: what was accepted is, and its id must not be lost. */
async function lookAgain<T>({ events }: FleetContext, look: () => Promise<T[]>): Promise<T | undefined> {
  try {
    return (await withDeadline(LAST_LOOK_MS, 'the last look', look))[0]
  } catch (error) {
    events.emit('wait.failed', { error })
    return undefined
  }
}

function answer({ operation, sandbox, checkpoint }: FoundOperation): Answer {
  return { operation: viewOperation(operation), sandbox: viewSandbox(sandbox, checkpoint) }
}

function executionAnswer({ execution, sandbox, checkpoint }: FoundExecution): ExecutionAnswer {
  return { execution: viewExecution(execution), sandbox: viewSandbox(sandbox, checkpoint) }
}

function hasEnded({ execution }: FoundExecution): boolean {
  return execution.ended_at !== null
}
