import { type FoundExecution, findExecutions, listExecutions } from '../../db/executions.ts'
import { isIdOf } from '../../sandbox/ids.ts'
import { askToCancel, askToExecute } from '../ask.ts'
import type { Fleet } from '../fleet.ts'
import { streamOutput } from '../output.ts'
import { ExecuteRequest, ExecutionsRequest, OutputRequest, parseRequest, WaitRequest } from '../requests.ts'
import { viewExecution } from '../views.ts'
import { type FleetContext, pageOf } from './context.ts'
import { unknownId } from './unknown-id.ts'
import { untilEnded } from './waits.ts'

/** What runs in sandboxes, and what it prints. */
export function executions(
  context: FleetContext,
): Pick<Fleet, 'execute' | 'execution' | 'executions' | 'cancel' | 'output'> {
  const { db, fleet, room, call, stream, deps } = context

  async function requireExecution(executionId: string): Promise<FoundExecution> {
    const [found] = isIdOf('execution', executionId) ? await findExecutions(db, { fleet, ids: [executionId] }) : []
    if (!found) throw unknownId('execution', executionId, fleet)
    return found
  }

  return {
    async execute(sandboxId, request = {}) {
      const { wait, signal, idempotencyKey, command, ifSuspended, ifLost, ...bounds } = parseRequest(
        ExecuteRequest,
        request,
      )
      return call(async () => {
        signal?.throwIfAborted()
        if (!isIdOf('sandbox', sandboxId)) throw unknownId('sandbox', sandboxId, fleet)
        const options = { ...(ifSuspended && { if_suspended: ifSuspended }), ...(ifLost && { if_lost: ifLost }) }
        const found = await askToExecute(deps(), {
          sandboxId,
          command,
          options,
          hardDeadlineMs: bounds.deadline,
          silenceMs: bounds.silence,
          outputBytesMax: bounds.outputBytesMax,
          idempotencyKey,
        })
        return untilEnded(context, found, { wait, signal })
      })
    },
    async execution(executionId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        return untilEnded(context, await requireExecution(executionId), waiting)
      })
    },
    async executions(request = {}) {
      const { sandboxId, status, cursor, limit } = parseRequest(ExecutionsRequest, request)
      return call(async () => {
        const found = await listExecutions(db, { fleet, sandboxId, status, before: cursor, max: limit })
        return pageOf(found.map(viewExecution), limit)
      })
    },
    async cancel(executionId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        await requireExecution(executionId)
        await askToCancel(deps(), executionId)
        return untilEnded(context, await requireExecution(executionId), waiting)
      })
    },
    output: (executionId, request = {}) =>
      stream(async function* (left) {
        const { from, signal } = parseRequest(OutputRequest, request)
        await call(() => requireExecution(executionId))
        const either = signal ? AbortSignal.any([signal, left]) : left
        yield* streamOutput({ db, room }, { executionId, from, signal: either })
      }),
  }
}
