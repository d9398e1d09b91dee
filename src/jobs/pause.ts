import type { Pausing } from '../backends/backend.ts'
import type { Ending } from '../db/settle.ts'
import { pauseQueue } from '../queues/pause.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import { goneBefore, type Known, look, refOf } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { failureOf, isBackendError } from './provider.ts'
import { checkpointOf, suspend } from './sleep.ts'
import { teardown } from './teardown.ts'

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
    // Its backend cannot pause, and the caller said to kill it instead.
    if (work.sandbox.state === 'killing') return teardown.perform(work)
    const { pausing } = work.backend
    if (pausing === 'none') return unsupported(work)

    const seen = await look(work)
    if (seen.is === 'absent' || seen.is === 'lost') return vanished(work, seen)
    if (seen.is === 'running') await suspend(work, pausing, seen.incarnation)
    return asleep(work, pausing)
  },

  async giveUp(work, error) {
    if (work.sandbox.state === 'killing') return teardown.giveUp(work, error)
    const { pausing } = work.backend
    if (pausing === 'none') return unsupported(work)

    const seen = await look(work).catch((unknown: unknown) => {
      if (mayHaveActed(work)) throw unknown
      return undefined
    })
    if (seen?.is === 'suspended') return asleep(work, pausing)
    if (seen?.is === 'absent' || seen?.is === 'lost') return vanished(work, seen)
    // It runs; or nobody has seen it, and nothing was done to it.
    return { status: 'failed', error, rest: { state: 'running', incarnation: seen?.incarnation } }
  },
}

/** The ending of a sandbox that its provider has put to sleep. */
async function asleep(work: Work, pausing: Pausing): Promise<Ending> {
  try {
    const checkpoint = await checkpointOf(work, pausing)
    return { status: 'succeeded', outcome: 'done', rest: { state: 'suspended', checkpoint } }
  } catch (error) {
    if (!isBackendError(error, 'checkpoint_missing', 'checkpoint_corrupt')) throw error
    return wakeAgain(work, pausing, failureOf(error))
  }
}

/** Nothing it could be resumed from later: it comes back now, or it is gone. */
async function wakeAgain(work: Work, pausing: Pausing, error: Failure): Promise<Ending> {
  const { provider, operation, sandbox } = work
  const asked = { key: operation.id, ttlMs: sandbox.hard_ttl_ms ?? provider.patience.leaseMs }
  const sleeping = { ref: refOf(work), checkpointRef: undefined }
  try {
    await provider.ask('resume', (call) => pausing.resume(sleeping, asked, call))
    const seen = await look(work)
    if (seen.is === 'running')
      return { status: 'failed', error, rest: { state: 'running', incarnation: seen.incarnation } }
  } catch (thrown) {
    if (!isBackendError(thrown, 'checkpoint_missing', 'checkpoint_corrupt', 'sandbox_expired')) throw thrown
  }
  const reason = error.error_type === 'checkpoint_corrupt' ? 'checkpoint_corrupt' : 'checkpoint_missing'
  return { status: 'failed', error, rest: { state: 'gone', reason } }
}

/** It was not there to be suspended; or it was, and the pause left nothing behind. */
function vanished(work: Work, seen: Extract<Known, { is: 'absent' | 'lost' }>): Ending {
  const { id } = work.sandbox
  if (mayHaveActed(work)) {
    const error = failure(
      'checkpoint_missing',
      `${id} is not there after it was to be suspended, and left no checkpoint.`,
    )
    return { status: 'failed', error, rest: { state: 'gone', reason: 'checkpoint_missing' } }
  }
  return { status: 'failed', ...goneBefore(id, seen) }
}

/** Its row was made when its backend could; the caller is told, and nothing is touched. */
function unsupported({ sandbox }: Work): Ending {
  const error = failure('pause_unsupported', `${sandbox.id} keeps running: backend ${sandbox.backend} cannot pause.`)
  return { status: 'failed', error, rest: { state: 'running' } }
}
