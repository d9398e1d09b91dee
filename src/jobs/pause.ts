import { BackendError, type Pausing } from '../backends/backend.ts'
import type { Ending, SeenCheckpoint } from '../db/ending.ts'
import { countAhead, countCommands, requestCancel } from '../db/executions.ts'
import { recordGivingUp } from '../db/fail.ts'
import { pauseQueue } from '../queues/pause.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import { TakenOver, vanished } from './end.ts'
import { type Known, look, running } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { failureOf, isBackendError } from './provider.ts'
import { checkpointOf, suspend, wakeAgain } from './sleep.ts'
import { teardown } from './teardown.ts'

const DONE = { status: 'succeeded', outcome: 'done' } as const

/**
 * Puts a sandbox to sleep: look, suspend, look again, verify what it can be resumed from. It is suspended when the checkpoint
 * was seen, and not because the provider said so.
 *
 * Delivered twice: the second finds it asleep, and only verifies.
 * Crash after the suspend: so does the retry.
 * No checkpoint: it is woken again if it is still alive, and gone if it is not. It is never suspended.
 */
export const pause: Verb = {
  queue: pauseQueue,

  async perform(work) {
    const busy = await makeIdle(work)
    if (busy) return busy
    // Its backend cannot pause, and the caller said to kill it instead.
    if (work.sandbox.state === 'killing') return teardown.perform(work)
    const { pausing } = work.backend
    if (pausing === 'none') return unsupported(work)

    const seen = await look(work)
    if (seen.is === 'absent' || seen.is === 'lost') return vanish(work, seen)
    if (seen.is === 'running' && isUnasked(work)) return notAsleep(work, seen)
    return putToRest(work, pausing, seen)
  },

  async giveUp(work, error) {
    if (work.sandbox.state === 'killing') return teardown.perform(work).catch(() => teardown.giveUp(work, error))
    const { pausing } = work.backend
    if (pausing === 'none') return unsupported(work)

    const seen = await look(work).catch((unknown: unknown) => {
      if (mayHaveActed(work)) throw unknown
      return undefined
    })
    // Of one that nobody has asked for, nothing is lost by looking later: what cannot be seen now stays open until it can.
    if (seen?.is === 'suspended') return isUnasked(work) ? putToRest(work, pausing, seen) : asleep(work, pausing, error)
    if (seen?.is === 'absent' || seen?.is === 'lost') return vanish(work, seen)
    // It runs; or nobody has seen it, and nothing was done to it.
    return { status: 'failed', error, rest: seen ? running(seen) : { state: 'running' } }
  },
}

/**
 * What runs in it has ended by now, is ended here, or keeps it from being paused. The agent that it was made with is not ended:
 * that sleeps with it, and its execution ends with the pause.
 */
async function makeIdle({ db, clock, sandbox, operation, provider }: Work): Promise<Ending | undefined> {
  const { if_busy } = operation.options
  if (sandbox.open_executions === 0 || if_busy === undefined || if_busy === 'ignore') return undefined
  if (if_busy === 'wait') {
    // Taken all the same: somebody has asked for something else, which would otherwise wait as long.
    if ((await countAhead(db, operation)) === 0) return undefined
    const message = `${sandbox.id} still works, and something else was asked of it: this pause gave way.`
    return { status: 'failed', error: failure('sandbox_busy', message), rest: { state: 'running' } }
  }
  await requestCancel(db, { interruptedBy: operation.id }, clock) // those that have not begun end when this has settled
  await provider.poll(provider.patience.interruptMs, async () => {
    const commands = await countCommands(db, sandbox.id)
    if (commands === 0) return { answer: undefined }
    return { still: new BackendError('sandbox_unreachable', `${commands} executions in ${sandbox.id} do not end.`) }
  })
  return undefined
}

/** Suspended, with what it can be resumed from; or woken again, if that is nothing. */
export async function putToRest(
  work: Work,
  pausing: Pausing,
  seen: Extract<Known, { is: 'running' | 'suspended' }>,
): Promise<Ending> {
  try {
    const checkpoint =
      seen.is === 'running' ? await suspend(work, pausing, seen.incarnation) : await asleepOn(work, pausing)
    return atRest(work, checkpoint)
  } catch (error) {
    if (!isBackendError(error, 'checkpoint_missing', 'checkpoint_corrupt')) throw error
    return wakeAgain(work, pausing, failureOf(error))
  }
}

/** What one that sleeps sleeps on. What an attempt before this one has begun may still be under way, and fail. */
function asleepOn(work: Work, pausing: Pausing): Promise<SeenCheckpoint> {
  const { incarnation } = work.sandbox
  const mayBeUnderWay = pausing.isShownEarly && incarnation !== null && !isUnasked(work)
  return mayBeUnderWay ? suspend(work, pausing, incarnation) : checkpointOf(work, pausing)
}

/** After the last attempt a checkpoint that cannot be seen to be whole is as good as none, for whatever reason. */
async function asleep(work: Work, pausing: Pausing, error: Failure): Promise<Ending> {
  if (work.operation.giving_up?.wakes) return wakeAgain(work, pausing, error) // that may be on its way yet
  try {
    return atRest(work, await asleepOn(work, pausing))
  } catch (thrown) {
    const why = failureOf(thrown)
    const { db, attempt } = work
    if (!(await recordGivingUp(db, { attempt, failure: { ...why, wakes: true } }))) throw new TakenOver()
    return wakeAgain(work, pausing, why)
  }
}

/** It sleeps. What ran in it was cancelled by whoever asked for that, if anybody did. */
export function atRest(work: Work, checkpoint: SeenCheckpoint): Ending {
  return { ...DONE, rest: { state: 'suspended', checkpoint }, ...(isUnasked(work) && { isUnasked: true }) }
}

/** It was not there to be suspended; or it was, and the pause left nothing behind. */
async function vanish(work: Work, seen: Extract<Known, { is: 'absent' | 'lost' }>): Promise<Ending> {
  const hadActed = mayHaveActed(work)
  const ending = await vanished(work, seen)
  if (!hadActed) return ending
  const message = `${work.sandbox.id} is not there after it was to be suspended, and left no checkpoint.`
  const rest = { state: 'gone', reason: 'checkpoint_missing' } as const
  return { status: 'failed', error: failure('checkpoint_missing', message), rest }
}

/** Its provider has put it to sleep, and this only writes that down; or only wanted a copy of it. */
function isUnasked({ operation }: Work): boolean {
  return operation.kind === 'snapshot' || operation.options.only === 'asleep'
}

/** Whoever thought that its provider had put it to sleep was wrong, or somebody has woken it: nothing is done to it. */
function notAsleep({ sandbox }: Work, seen: Extract<Known, { is: 'running' }>): Ending {
  const error = failure('invalid_transition', `${sandbox.id} is not asleep: its provider shows it running.`)
  return { status: 'failed', error, rest: running(seen) }
}

/** Its row was made when its backend could; the caller is told, and nothing is touched. */
function unsupported({ sandbox }: Work): Ending {
  const error = failure('pause_unsupported', `${sandbox.id} keeps running: backend ${sandbox.backend} cannot pause.`)
  return { status: 'failed', error, rest: { state: 'running' } }
}
