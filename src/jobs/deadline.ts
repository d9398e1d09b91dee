import { BackendError } from '../backends/backend.ts'
import { recordStop, takeExecution } from '../db/streams.ts'
import { describeError } from '../errors.ts'
import { workOn } from './execution.ts'
import { isBackendError } from './provider.ts'
import { agentOf, finish, type StreamDeps, type StreamWork } from './stream-work.ts'

/**
 * Ends an execution that is long past its hard deadline, in the place of whoever should have: takes it, so that nobody else can
 * write, stops its agent, and sees it stopped. False when there was nothing to end.
 *
 * Its provider does not answer: then it is ended all the same, as one that is followed would be, and its message says so.
 */
export async function endPastDeadline(deps: StreamDeps, executionId: string, signal: AbortSignal): Promise<boolean> {
  const { db, clock, fleet, worker, backends } = deps
  const taken = await takeExecution(db, { fleet, executionId, worker, backends: [...backends.keys()], clock })
  if (typeof taken === 'string' || 'notMineSince' in taken || !taken.isPastDeadline) return false
  const work = workOn(deps, taken, signal)
  const end = { status: 'failed', reason: 'deadline_exceeded' } as const
  if (taken.execution.status === 'queued')
    return (await finish(work, { ...end, message: 'Its deadline passed before it began.' })).kind === 'done'
  const { fence, id } = taken.execution
  if (!(await recordStop(db, { id, fence, reason: 'deadline', clock }))) return false
  const left = await stop(work).catch((error: unknown) => {
    signal.throwIfAborted()
    deps.events.emit('execution.left_over', { executionId, error })
    return describeError(error)
  })
  const message =
    left === undefined
      ? 'Its deadline passed and nobody followed it; its agent was stopped.'
      : `Its deadline passed and nobody followed it; its agent could not be seen to stop: ${left}`
  return (await finish(work, { ...end, message })).kind === 'done'
}

/** Returns when the agent was seen to have ended, or not to be there. */
async function stop(work: StreamWork): Promise<undefined> {
  const { backend, provider, execution } = work
  const agent = agentOf(work)
  try {
    await provider.ask('stop_agent', (call) => backend.stopAgent(agent, call))
    await provider.poll(provider.patience.callMs.stop_agent, async () => {
      const { is } = await provider.ask('agent_status', (call) => backend.agentStatus(agent, call))
      if (is !== 'running') return { answer: undefined }
      return { still: new BackendError('sandbox_unreachable', `The agent of ${execution.id} still runs.`) }
    })
  } catch (error) {
    if (!isBackendError(error, 'sandbox_expired', 'overtaken')) throw error // there is nothing that could run
  }
  return undefined
}
