import type { Pausing } from '../backends/backend.ts'
import { recordDeleted } from '../db/checkpoints.ts'
import type { Ending } from '../db/settle.ts'
import { describeError } from '../errors.ts'
import { resumeQueue } from '../queues/resume.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { goneBefore, look, refOf } from './look.ts'
import type { Verb, Work } from './operation.ts'
import { failureOf, isBackendError } from './provider.ts'
import { checkpointOf, suspend } from './sleep.ts'
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
    if (seen.is === 'absent' || seen.is === 'lost') {
      const { error, rest } = goneBefore(work.sandbox.id, seen)
      return lost(work, error, rest.reason)
    }
    try {
      if (seen.is === 'suspended') await restore(work)
      const how = { isNew: false, skipHooks: skipsHooks(work) }
      return { status: 'succeeded', outcome: 'done', rest: await wake(work, refOf(work), how) }
    } catch (error) {
      if (!isBackendError(error, 'sandbox_expired', 'checkpoint_missing', 'checkpoint_corrupt')) throw error
      const failed = failureOf(error, work.checkpoint?.id)
      return lost(work, failed, REASONS[failed.error_type as keyof typeof REASONS])
    }
  },

  async giveUp(work, error) {
    if (work.sandbox.state === 'provisioning') return spawn.giveUp(work, error)
    if (work.operation.options.if_lost === 'respawn') {
      await endOwn(work).catch((left: unknown) => {
        work.evidence.left_over = describeError(left)
      })
    }
    // Suspended claims nothing but that there is a checkpoint; so that is where it rests when nobody can see it.
    const seen = await look(work).catch(() => undefined)
    if (seen?.is === 'running') return putBack(work, error, seen.incarnation)
    if (seen?.is === 'absent' || seen?.is === 'lost') {
      return { status: 'failed', ...goneBefore(work.sandbox.id, seen), checkpoints: { which: 'own', are: 'missing' } }
    }
    return { status: 'failed', error, rest: { state: 'suspended' } }
  },

  /** Nothing rests any more on what it was woken from. If this is cut off, the sweeper finds it. */
  async tidyUp({ backend, checkpoint, db, provider }, { rest, checkpoints }) {
    const { pausing } = backend
    const newer = rest.state === 'suspended' ? rest.checkpoint : undefined
    if (!checkpoint || pausing === 'none' || checkpoints || !(rest.state === 'running' || newer)) return
    // Some providers call every checkpoint of an instance by the same name.
    if (newer?.providerRef !== checkpoint.provider_ref)
      await provider.ask('discard', (call) => pausing.discard(checkpoint.provider_ref, call))
    await recordDeleted(db, checkpoint.id)
  },
}

const REASONS = {
  sandbox_expired: 'expired',
  checkpoint_missing: 'checkpoint_missing',
  checkpoint_corrupt: 'checkpoint_corrupt',
} as const satisfies Partial<Record<Failure['error_type'], GoneReason>>

async function restore(work: Work): Promise<void> {
  const { backend, checkpoint, operation, provider, sandbox } = work
  const pausing = backend.pausing as Pausing
  const sleeping = { ref: refOf(work), checkpointRef: checkpoint?.provider_ref }
  const asked = { key: operation.id, ttlMs: sandbox.hard_ttl_ms ?? provider.patience.leaseMs }
  await provider.ask('resume', (call) => pausing.resume(sleeping, asked, call))
}

async function lost(work: Work, error: Failure, reason: GoneReason): Promise<Ending> {
  const checkpoints = { which: 'own', are: 'missing' } as const
  work.evidence.lost = error.message
  if (work.operation.options.if_lost === 'respawn') return { ...(await respawn(work)), checkpoints }
  const { error_type, message } = error
  const named = failure(error_type, message, work.checkpoint?.id)
  return { status: 'failed', error: named, rest: { state: 'gone', reason }, checkpoints }
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
    await suspend(work, pausing, incarnation)
    return { status: 'failed', error, rest: { state: 'suspended', checkpoint: await checkpointOf(work, pausing) } }
  } catch (thrown) {
    work.evidence.put_back = failureOf(thrown).message
    const seen = await look(work)
    if (seen.is === 'running')
      return {
        status: 'failed',
        error,
        rest: { state: 'running', providerRef: refOf(work), incarnation: seen.incarnation },
      }
    if (seen.is === 'suspended') return { status: 'failed', error, rest: { state: 'suspended' } }
    return { status: 'failed', ...goneBefore(work.sandbox.id, seen), checkpoints: { which: 'own', are: 'missing' } }
  }
}
