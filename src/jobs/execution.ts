import type { Backend } from '../backends/backend.ts'
import { recordWake, startExecution } from '../db/executions.ts'
import type { ExecutionRow, OperationRow } from '../db/schema.ts'
import { type TakenExecution, takeExecution } from '../db/streams.ts'
import { describeError, isSandmanError, SandmanError } from '../errors.ts'
import { type Outcome, snoozed, superseded } from '../queues/outcome.ts'
import type { StreamsPayload } from '../queues/streams.ts'
import { admit, explainRefusal } from '../sandbox/executions.ts'
import { follow } from './follow.ts'
import { notMineMs } from './not-mine.ts'
import { PATIENCE } from './patience.ts'
import { Provider } from './provider.ts'
import { ask, finish, type StreamDeps, type StreamWork } from './stream-work.ts'

/** Between something that went wrong on our side, such as a database that was away, and the next try. */
const SET_BACK_MS = 1_000

/** So often a sandbox is woken, or replaced, for one execution. More is a sandbox that does not live. */
const WAKES_MAX = 5

/**
 * The story of every execution's job: take it, wake its sandbox if that sleeps, start its agent, and follow it to its end.
 *
 * Delivered twice, or taken over after a crash: the newer one goes on from the bytes that are kept; the older one's writes
 * change nothing. Starting an agent that was started is nothing.
 * Not its turn yet: nothing is done; it is rung for when its sandbox has come to rest.
 */
export async function performExecution(
  deps: StreamDeps,
  { executionId }: StreamsPayload,
  { signal }: { signal: AbortSignal },
): Promise<Outcome> {
  const { db, clock, fleet, worker, backends } = deps
  try {
    const taken = await takeExecution(db, { fleet, executionId, worker, backends: [...backends.keys()], clock })
    if (taken === 'ended') return superseded('it has ended')
    if (taken === 'unknown') {
      throw new SandmanError('execution_not_found', `There is no execution ${executionId} in this fleet.`, {
        details: { executionId },
      })
    }
    if ('notMineSince' in taken)
      return snoozed('this worker does not have its backend (SANDMAN_BACKENDS)', notMineMs(taken.notMineSince))
    const work = workOn(deps, taken, signal)
    if (taken.execution.status === 'running') return await follow(work, { isFirst: false })
    const started = await begin(work, taken)
    return 'kind' in started ? started : await follow({ ...work, execution: started }, { isFirst: true })
  } catch (error) {
    signal.throwIfAborted()
    if (isSandmanError(error, 'execution_not_found')) throw error
    // Not a failed attempt of the job: those are few, and an execution may last for days. What is kept is where it goes on.
    deps.events.emit('execution.set_back', { executionId, error })
    return snoozed(`it is taken up again: ${describeError(error)}`, SET_BACK_MS)
  }
}

export function workOn(deps: StreamDeps, { execution, sandbox }: TakenExecution, signal: AbortSignal): StreamWork {
  const { patience = PATIENCE, events } = deps
  const backend = deps.backends.get(sandbox.backend) as Backend
  const asker = { executionId: execution.id }
  const provider = new Provider({ backend: backend.name, asker, sandboxId: sandbox.id, patience, signal, events })
  return { deps, execution, sandbox, backend, provider, signal }
}

/** Brings a queued execution as far as its sandbox allows: it starts, or waits for an operation, or has ended. */
async function begin(work: StreamWork, taken: TakenExecution): Promise<ExecutionRow | Outcome> {
  const { execution, sandbox, wake, atWork, isPastDeadline } = taken
  if (execution.cancel_requested_at !== null)
    return finish(work, { status: 'cancelled', reason: 'cancelled', message: 'It was cancelled before it began.' })
  if (isPastDeadline)
    return finish(work, {
      status: 'failed',
      reason: 'deadline_exceeded',
      message: `Its deadline passed before it began: ${sandbox.id} is ${sandbox.state}.`,
    })

  const admission = admit(sandbox.state, execution.options)
  switch (admission.answer) {
    case 'start':
      return start(work)
    case 'wait':
      // A pause that waits for it, if it was asked for before that: the database knows.
      if (atWork?.options.if_busy === 'wait') return start(work)
      return superseded(`its sandbox is ${sandbox.state}; it is rung for when that has settled`)
    case 'refused':
      return finish(work, {
        status: 'failed',
        reason: admission.because === 'sandbox_gone' ? 'instance_lost' : 'error',
        message: explainRefusal(admission.because, sandbox.id),
      })
    case 'wake': {
      if (wake?.error) {
        const reason = sandbox.state === 'gone' ? 'instance_lost' : 'error'
        const message = `${sandbox.id} was not woken (${wake.error.error_type}): ${wake.error.message}`
        return finish(work, { status: 'failed', reason, message })
      }
      if (execution.wakes >= WAKES_MAX) {
        const message = `${sandbox.id} was woken ${WAKES_MAX} times for it, and was ${sandbox.state} each time before it began.`
        return finish(work, { status: 'failed', reason: 'instance_lost', message })
      }
      const { if_lost } = execution.options
      const asked = await ask(work, 'resume', if_lost ? { if_lost } : {})
      if (asked.settled_at !== null) return movedOn(asked)
      await recordWake(work.deps.db, { id: execution.id, operationId: asked.id })
      return superseded(`its sandbox is woken by ${asked.id}; it is rung for when that has settled`)
    }
  }
}

/** Looks first: what is said to run may be lost, or asleep. Then it says so to the database, and only then to the agent. */
async function start(work: StreamWork): Promise<ExecutionRow | Outcome> {
  const { deps, execution, sandbox, backend, provider } = work
  const ref = sandbox.provider_ref as string
  const seen = await provider.ask('look', (call) => backend.look(ref, call))
  switch (seen.is) {
    case 'running': {
      const { fence } = execution
      const started = await startExecution(deps.db, {
        id: execution.id,
        fence,
        incarnation: seen.incarnation,
        clock: deps.clock,
      })
      return (
        started ??
        superseded('its sandbox is on its way elsewhere, which rings when it has settled, or somebody else has it')
      )
    }
    case 'absent':
    case 'lost': {
      const asked = await ask(work, 'kill', { only: 'lost' })
      return asked.settled_at === null ? superseded(`its sandbox is lost, and ended by ${asked.id}`) : movedOn(asked)
    }
    case 'suspended': {
      // Its provider has put it to sleep. That is written down by a pause, which only has to look.
      const asked = await ask(work, 'pause', { if_busy: 'ignore', only: 'asleep' })
      if (asked.error?.error_type === 'pause_unsupported') {
        const message = `Its provider has put ${sandbox.id} to sleep. ${asked.error.message}`
        return finish(work, { status: 'failed', reason: 'instance_lost', message })
      }
      return asked.settled_at === null ? superseded(`it sleeps, which ${asked.id} writes down`) : movedOn(asked)
    }
    case 'changing':
      return snoozed(`its sandbox is changing: ${seen.why}`, provider.patience.changingAgainMs)
  }
}

/** An answer at once means that the sandbox is not where it was, or that too many wait for it: nobody will ring, so it looks again. */
function movedOn({ id, error }: OperationRow): Outcome {
  return snoozed(`${id} was answered at once: ${error?.message ?? 'there was nothing to do'}`, SET_BACK_MS)
}
