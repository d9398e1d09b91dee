import type { Backend } from '../backends/backend.ts'
import { recordWake, startExecution } from '../db/executions.ts'
import type { ExecutionRow } from '../db/schema.ts'
import { type TakenExecution, takeExecution } from '../db/streams.ts'
import { SandmanError } from '../errors.ts'
import { type Outcome, snoozed, superseded } from '../queues/outcome.ts'
import type { StreamsPayload } from '../queues/streams.ts'
import { admit, explainRefusal } from '../sandbox/executions.ts'
import { follow } from './follow.ts'
import { notMineMs } from './operation.ts'
import { PATIENCE } from './patience.ts'
import { Provider } from './provider.ts'
import { ask, finish, type StreamDeps, type StreamWork } from './stream-work.ts'

/** An instance that is neither here nor there is looked at again. */
const CHANGING_MS = 1_000

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
  if (taken.execution.status === 'running') return follow(work)
  const started = await begin(work, taken)
  return 'kind' in started ? started : follow({ ...work, execution: started })
}

function workOn(deps: StreamDeps, { execution, sandbox }: TakenExecution, signal: AbortSignal): StreamWork {
  const { patience = PATIENCE, events } = deps
  const backend = deps.backends.get(sandbox.backend) as Backend
  const asker = { executionId: execution.id }
  const provider = new Provider({ backend: backend.name, asker, sandboxId: sandbox.id, patience, signal, events })
  return { deps, execution, sandbox, backend, provider, signal }
}

/** Brings a queued execution as far as its sandbox allows: it starts, or waits for an operation, or has ended. */
async function begin(work: StreamWork, taken: TakenExecution): Promise<ExecutionRow | Outcome> {
  const { execution, sandbox, wake, isPastDeadline } = taken
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
      const { if_lost } = execution.options
      const asked = await ask(work, 'resume', if_lost ? { if_lost } : {})
      await recordWake(work.deps.db, { id: execution.id, operationId: asked })
      return superseded(`its sandbox is woken by ${asked}; it is rung for when that has settled`)
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
      if (started) return started
      await deps.ringForExecutions([execution.id])
      return superseded('its sandbox is on its way elsewhere, or somebody else has it')
    }
    case 'absent':
    case 'lost':
      return superseded(`its sandbox is lost, and ended by ${await ask(work, 'kill', { only: 'lost' })}`)
    case 'suspended':
      return superseded(`its provider has put its sandbox to sleep: ${await ask(work, 'pause', { if_busy: 'wait' })}`)
    case 'changing':
      return snoozed(`its sandbox is changing: ${seen.why}`, CHANGING_MS)
  }
}
