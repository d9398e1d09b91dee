import type { Backend } from '../backends/backend.ts'
import type { Clock } from '../clock.ts'
import type { Ending } from '../db/ending.ts'
import { recordFailure, recordGivingUp } from '../db/fail.ts'
import type { Db } from '../db/pool.ts'
import { type Settled, settle } from '../db/settle.ts'
import { type NotTaken, type Taken, type Taking, take } from '../db/take.ts'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { QUEUE_OF_KIND } from '../queues/catalog.ts'
import type { QueueDefinition } from '../queues/define.ts'
import type { OperationPayload } from '../queues/operation.ts'
import { done, type Outcome, snoozed, superseded } from '../queues/outcome.ts'
import { FAILURES, type Failure, failure } from '../sandbox/failures.ts'
import { KINDS, type Kind } from '../sandbox/judge.ts'
import type { Limits } from '../sandbox/limits.ts'
import { TakenOver } from './end.ts'
import { leaseMs } from './lease.ts'
import { notMineMs } from './not-mine.ts'
import { PATIENCE, type Patience } from './patience.ts'
import { failureOf, Provider } from './provider.ts'
import type { Settler, Taker } from './together.ts'

export type JobDeps = {
  db: Db
  clock: Clock
  fleet: string
  worker: string
  backends: ReadonlyMap<string, Backend>
  events: Events
  patience?: Patience
  /** The fleet's, for sandboxes that have none of their own. */
  limits?: Limits
  /** Of the queue that is worked off. Without one, every operation is taken alone. */
  taker?: Taker
  /** Of the worker. Without one, every operation is settled alone. */
  settler?: Settler
  /** Tells workers whose turn it is now. */
  ring(due: { operationId: string; kind: Kind }): Promise<unknown>
  /** Tells workers that there are executions to look at. */
  ringForExecutions(executionIds: string[]): Promise<unknown>
  /** Tells whoever waits for them that there is news of these operations and executions. Not waited for: who is not told looks. */
  announce(ids: string[]): void
}

/** One attempt at one operation, in the hands of a job. */
export type Work = Taken & {
  db: Db
  fleet: string
  clock: Clock
  backend: Backend
  provider: Provider
  events: Events
  /** What its provider's time-to-live is set to. */
  leaseMs: number
  /** What was seen at the provider, for whoever asks why. */
  evidence: Record<string, unknown>
}

/** What a job does, apart from what all of them do. */
export type Verb = {
  queue: QueueDefinition<OperationPayload>
  /** Looks, does what is still missing, and says what is true then. May run again at any time, on any worker. */
  perform(work: Work): Promise<Ending>
  /**
   * The last attempt has failed: says what is true at the provider. Undefined when nobody can say, because it does not answer
   * and something may have been changed there; then the operation stays open, and is looked at again.
   */
  giveUp(work: Work, error: Failure): Promise<Ending | undefined>
  /** Goes on performing, once in a while, as long as nobody can say what it has come to. */
  persists?: true
  /** What is left to tidy up once the operation has settled. Nobody waits for it, and nothing depends on it. */
  tidyUp?(work: Work, ending: Ending): Promise<void>
}

/** An operation that ends every worker it meets is looked at, but not worked on any more. */
const CUT_OFF_MAX = 20

/**
 * The story of every operation's job: take, perform, settle, and ring for whoever is next.
 *
 * Delivered twice: the second finds it settled, or takes it over; then the first one's writes change nothing.
 * Crashed anywhere: the operation is rung for again, and the next attempt looks before it acts.
 * Failed: tried again as often as its queue says. After that, what is settled is what the provider shows.
 */
export async function performOperation(
  deps: JobDeps,
  verb: Verb,
  { operationId }: OperationPayload,
  { signal }: { signal: AbortSignal },
): Promise<Outcome> {
  const { db, clock, events, taker, settler } = deps
  const taken = await (taker?.ask(operationId) ?? take(db, { ...takingOf(deps, verb), operationId }))
  if (!taken.attempt) return explain(taken, operationId)
  const work = begin(deps, taken, signal)
  events.emit('operation.taken', { ...named(work), attempt: taken.operation.attempt })

  const attempted = await attempt(deps, verb, work, signal).catch((thrown: unknown) => {
    if (thrown instanceof TakenOver) return undefined
    throw thrown
  })
  if (!attempted) return superseded('a newer attempt has taken over')
  const { ending, error } = attempted
  if (!ending) {
    const recorded = await recordFailure(db, {
      attempt: taken.attempt,
      failure: error,
      acted: work.provider.acted,
      clock,
    })
    if (!recorded) return superseded('a newer attempt has taken over')
    events.emit('operation.undecided', { ...named(work), errorType: error.error_type, reason: error.message })
    return snoozed(`nobody can say what became of it: ${error.message}`, work.provider.patience.unknownMs)
  }

  const end = { attempt: taken.attempt, ending: { ...ending, evidence: work.evidence } }
  const settled = await (settler?.ask(end) ?? settle(db, { ...end, clock }))
  if (!settled.settled) return superseded('a newer attempt has taken over')
  tell(deps, settled)
  if (settled.next) await deps.ring(settled.next)
  if (settled.queued.length > 0) await deps.ringForExecutions(settled.queued)
  await verb
    .tidyUp?.(work, ending)
    .catch((error: unknown) => events.emit('operation.left_over', { ...named(work), error }))
  return done()
}

/** What a worker takes from the queue of a verb. */
export function takingOf({ fleet, worker, backends, clock }: JobDeps, { queue }: Verb): Taking {
  const kinds = KINDS.filter((kind) => QUEUE_OF_KIND[kind] === queue)
  return { fleet, worker, kinds, backends: [...backends.keys()], clock }
}

/** How the attempt ends, or with which failure it does not. Throws what is worth another attempt. */
async function attempt(
  { db, clock }: JobDeps,
  verb: Verb,
  work: Work,
  signal: AbortSignal,
): Promise<{ ending: Ending; error?: undefined } | { ending: undefined; error: Failure }> {
  const { operation } = work
  let error = whyGivenUp(work, verb)
  if (!error || (verb.persists && !isPoison(work))) {
    try {
      return { ending: await verb.perform(work) }
    } catch (thrown) {
      signal.throwIfAborted() // given up by its worker, and not by the provider
      if (thrown instanceof TakenOver) throw thrown
      error = failureOf(thrown, work.checkpoint?.id)
      if (FAILURES[error.error_type].again && operation.failures + 1 < verb.queue.attemptsMax) {
        const { attempt, provider } = work
        if (!(await recordFailure(db, { attempt, failure: error, acted: provider.acted, clock }))) throw new TakenOver()
        throw thrown
      }
      if (!operation.giving_up && !(await recordGivingUp(db, { attempt: work.attempt, failure: error })))
        throw new TakenOver()
    }
  }
  try {
    const ending = await verb.giveUp(work, error)
    signal.throwIfAborted() // what could not be seen any more because we are stopping is not what is true
    return ending ? { ending } : { ending, error }
  } catch (thrown) {
    signal.throwIfAborted()
    const { message } = failureOf(thrown)
    return {
      ending: undefined,
      error: failure(error.error_type, `${error.message} Then: ${message}`, error.checkpoint_id),
    }
  }
}

/** Why an operation is not worked on any more, when it is not. */
function whyGivenUp(work: Work, { queue }: Verb): Failure | undefined {
  const { operation } = work
  if (isPoison(work))
    return failure('internal', `${cutOff(work)} workers were cut off while they worked on ${operation.id}.`)
  if (operation.giving_up) {
    const { wakes: _, ...why } = operation.giving_up
    return why
  }
  // The release before wrote nothing down: who has used up all attempts has been given up.
  return operation.failures >= queue.attemptsMax ? (operation.last_error ?? undefined) : undefined
}

/** It has ended every worker that it met. */
function isPoison(work: Work): boolean {
  return cutOff(work) >= CUT_OFF_MAX
}

/** Attempts that were not heard of again. */
function cutOff({ operation }: Work): number {
  return operation.attempt - 1 - operation.failures
}

/** Whether any attempt, this one included, may have changed something at the provider. */
export function mayHaveActed(work: Work): boolean {
  return work.provider.acted || work.operation.acted || cutOff(work) > 0
}

function begin(deps: JobDeps, taken: Taken, signal: AbortSignal): Work {
  const { db, fleet, events, patience = PATIENCE } = deps
  const name = taken.sandbox.backend
  const backend = deps.backends.get(name) as Backend
  const ids = { asker: { operationId: taken.operation.id }, sandboxId: taken.sandbox.id }
  const provider = new Provider({ backend: name, ...ids, patience, signal, events })
  const { created_at, hard_ttl_ms } = taken.sandbox
  return {
    ...taken,
    ...{ db, fleet, clock: deps.clock, backend, provider, events },
    leaseMs: leaseMs(patience.leaseMs, created_at, hard_ttl_ms ?? deps.limits?.hardMs),
    evidence: {},
  }
}

function explain(notTaken: NotTaken, operationId: string): Outcome {
  switch (notTaken.because) {
    case 'ended':
      return superseded('it has settled')
    case 'waiting':
      return superseded('its turn has not come; it is rung for when it does')
    case 'not_mine':
      return snoozed('this worker does not have its backend (SANDMAN_BACKENDS)', notMineMs(notTaken.since))
    case 'other_kind':
      return superseded('it belongs into another queue')
    case 'busy':
      return superseded('it waits for executions to end; it is rung for when they have')
    case 'unknown':
      throw new SandmanError('operation_not_found', `There is no operation ${operationId} in this fleet.`, {
        details: { operationId },
      })
  }
}

function tell({ events, announce }: JobDeps, settled: Settled): void {
  const { operation, sandbox, from, answered, answers, ended, endedAs } = settled
  const { backend } = sandbox
  const sinceMs = (at: Date | null) => (operation.settled_at as Date).getTime() - (at ?? operation.created_at).getTime()
  events.emit('operation.settled', {
    operationId: operation.id,
    sandboxId: sandbox.id,
    kind: operation.kind,
    backend,
    status: operation.status,
    from,
    state: sandbox.state,
    durationMs: sinceMs(operation.created_at),
    workedMs: sinceMs(operation.started_at),
    ...(operation.outcome && { outcome: operation.outcome }),
    ...(operation.error && { errorType: operation.error.error_type, reason: operation.error.message }),
  })
  for (const answer of answers) events.emit('operation.answered', { sandboxId: sandbox.id, backend, ...answer })
  for (const executionId of ended) {
    const { status, reason } = endedAs
    events.emit('execution.interrupted', { executionId, sandboxId: sandbox.id, backend, status, reason })
  }
  announce([operation.id, ...answered, ...ended])
}

function named({ operation, sandbox }: Work): Record<string, unknown> {
  return { operationId: operation.id, sandboxId: sandbox.id, kind: operation.kind, backend: sandbox.backend }
}
