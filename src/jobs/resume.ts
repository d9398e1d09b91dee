import { BackendError, type Pausing } from '../backends/backend.ts'
import { isPromised, recordDeleted } from '../db/checkpoints.ts'
import type { Ending } from '../db/ending.ts'
import { describeError } from '../errors.ts'
import { resumeQueue } from '../queues/resume.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { endInstance, vanished } from './end.ts'
import { checkpointAfter, type Known, look, refOf, running } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { failureOf, isBackendError } from './provider.ts'
import { checkpointOf, suspend, wakeAgain } from './sleep.ts'
import { bringToLife, endOwn, spawn } from './spawn.ts'
import { wake } from './wake.ts'

/**
 * Wakes a sandbox, until it was seen to be awake: restored, with its time-to-live, its hooks run and its preview answering.
 *
 * Delivered twice, or after a crash: the second finds it running, and only does what wakes it.
 * Expired, or nothing whole to wake it from: gone, with which of them; or replaced, when the caller allows it.
 * Unreachable: still suspended, and what woke only half is put back to sleep, so that asking again is a new try.
 */
export const resume: Verb = {
  queue: resumeQueue,

  async perform(work) {
    if (work.sandbox.state === 'provisioning') return respawn(work)
    const seen = await look(work)
    if (seen.is === 'absent' || seen.is === 'lost') return lost(work, await vanished(work, seen))
    try {
      if (seen.is === 'suspended') await restore(work, seen)
      const how = { isNew: false, skipHooks: skipsHooks(work) }
      const rest = await wake(work, refOf(work), how)
      return { status: 'succeeded', outcome: 'done', rest, ...(isUsedUp(work) && USED_UP) }
    } catch (thrown) {
      if (!isBackendError(thrown, 'sandbox_expired', 'checkpoint_missing', 'checkpoint_corrupt')) throw thrown
      const error = failureOf(thrown, work.checkpoint?.id)
      await endInstance(work, refOf(work)) // or what is left of it would be out of reach once it is gone
      const reason = REASONS[error.error_type as keyof typeof REASONS]
      return lost(work, { status: 'failed', error, rest: { state: 'gone', reason } })
    }
  },

  async giveUp(work, error) {
    if (work.sandbox.state === 'provisioning') return spawn.giveUp(work, error)
    const respawns = work.operation.options.if_lost === 'respawn'
    if (respawns) {
      await endOwn(work).catch((left: unknown) => {
        work.evidence.left_over = describeError(left)
      })
    }
    const seen = await look(work).catch((unknown: unknown) => {
      if (mayHaveActed(work)) throw unknown
      return undefined
    })
    if (seen?.is === 'running') return putBack(work, error, seen.incarnation)
    if (seen?.is === 'absent' || seen?.is === 'lost') {
      const ending = await vanished(work, seen)
      // Why it could not be replaced says more than that it had to be.
      return { ...ending, ...(respawns && { error }), ...(await checkpointAfter(work)) }
    }
    // What was to wake it may only be late. The next attempt wakes nobody: it looks whether that has arrived meanwhile.
    if (seen && work.provider.late.has('resume'))
      throw new BackendError('sandbox_unreachable', `${work.sandbox.id} sleeps, and may still be woken by that.`)
    // It sleeps; or nobody has seen it, and nothing was done to it.
    const isOnAnother = seen && sleepsOn(work, seen) !== work.checkpoint?.provider_ref
    return isOnAnother ? asleepAgain(work, error) : { status: 'failed', error, rest: { state: 'suspended' } }
  },

  /** Nothing rests any more on what it was woken from. If this is cut off, the sweeper finds it. */
  async tidyUp({ backend, checkpoint, db, provider }, ending) {
    const { pausing } = backend
    const { rest } = ending
    if (!checkpoint || pausing === 'none' || ending.checkpoints) return
    // Of one that was lost or replaced it is all that is left, if it is; destroy deletes it, or the sweeper does.
    const wasWoken = ending.status === 'succeeded' && ending.outcome === 'done'
    const wasPutBack = rest.state === 'suspended' && rest.checkpoint !== undefined
    if (!wasWoken && !wasPutBack) return
    if (!pausing.consumesCheckpoint) {
      if (await isPromised(db, checkpoint.id)) return
      await provider.ask('discard', (call) => pausing.discard(checkpoint.provider_ref, call))
    }
    await recordDeleted(db, checkpoint.id)
  },
}

const REASONS = {
  sandbox_expired: 'expired',
  checkpoint_missing: 'checkpoint_missing',
  checkpoint_corrupt: 'checkpoint_corrupt',
} as const satisfies Partial<Record<Failure['error_type'], GoneReason>>

const USED_UP = { checkpoints: { which: 'own', are: 'deleted' } } as const satisfies Partial<Ending>

/** Waking took away what it was woken from: that is known with the waking, and is written down with it. */
function isUsedUp({ backend }: Work): boolean {
  return backend.pausing !== 'none' && backend.pausing.consumesCheckpoint
}

type Asleep = Extract<Known, { is: 'suspended' }>

/**
 * What it sleeps on. An attempt before this one, or this one, may have woken it and put it back to sleep: then that is something
 * newer than its row names, and what the row names may not even be there any more. Otherwise what the row names is what counts.
 */
function sleepsOn(work: Work, { checkpointRef }: Asleep): string | undefined {
  const known = work.checkpoint?.provider_ref
  return mayHaveActed(work) ? (checkpointRef ?? known) : known
}

async function restore(work: Work, seen: Asleep): Promise<void> {
  const { backend, operation, provider } = work
  const pausing = backend.pausing as Pausing
  const sleeping = { ref: refOf(work), checkpointRef: sleepsOn(work, seen) }
  const asked = { key: operation.id, ttlMs: work.leaseMs }
  await provider.ask('resume', (call) => pausing.resume(sleeping, asked, call))
}

/** Gone, as the ending says; or replaced, when the caller allows it. */
async function lost(work: Work, ending: Extract<Ending, { status: 'failed' | 'refused' }>): Promise<Ending> {
  work.evidence.lost = ending.error.message
  const isReplaced = work.operation.options.if_lost === 'respawn'
  return { ...(isReplaced ? await respawn(work) : ending), ...(await checkpointAfter(work)) }
}

async function respawn(work: Work): Promise<Ending> {
  return { status: 'succeeded', outcome: 'respawned', rest: await bringToLife(work, { skipHooks: skipsHooks(work) }) }
}

function skipsHooks({ operation }: Work): boolean {
  return operation.options.hooks === 'skip'
}

/** It runs, but could not be woken for whoever waits. Running on would cost money, and a retry would find nothing to do. */
async function putBack(work: Work, error: Failure, incarnation: string): Promise<Ending> {
  const pausing = work.backend.pausing as Pausing
  try {
    return {
      status: 'failed',
      error,
      rest: { state: 'suspended', checkpoint: await suspend(work, pausing, incarnation) },
    }
  } catch (thrown) {
    work.evidence.put_back = failureOf(thrown).message
    const seen = await look(work)
    if (seen.is === 'running') return { status: 'failed', error, rest: running(seen) }
    if (seen.is === 'suspended') return asleepAgain(work, error)
    return { ...(await vanished(work, seen)), ...(await checkpointAfter(work)) }
  }
}

/** It was awake in between: what it sleeps on is not what it was woken from, which may be used up. */
async function asleepAgain(work: Work, error: Failure): Promise<Ending> {
  const pausing = work.backend.pausing as Pausing
  try {
    return { status: 'failed', error, rest: { state: 'suspended', checkpoint: await checkpointOf(work, pausing) } }
  } catch (thrown) {
    if (!isBackendError(thrown, 'checkpoint_missing', 'checkpoint_corrupt')) throw thrown
    return wakeAgain(work, pausing, failureOf(thrown))
  }
}
