import { BackendError, type Pausing } from '../backends/backend.ts'
import type { Ending, SeenCheckpoint } from '../db/ending.ts'
import type { Failure } from '../sandbox/failures.ts'
import { endInstance } from './end.ts'
import { look, refOf, running, verified } from './look.ts'
import type { Work } from './operation.ts'
import { isBackendError } from './provider.ts'

/** Puts it to sleep, and returns what it can be resumed from: seen at the provider, and whole. */
export async function suspend(work: Work, pausing: Pausing, incarnation: string): Promise<SeenCheckpoint> {
  const target = { ref: refOf(work), incarnation }
  const { checkpointRef } = await work.provider.ask('suspend', (call) =>
    pausing.suspend(target, { key: work.operation.id }, call),
  )
  return checkpointOf(work, pausing, checkpointRef)
}

/** What a sleeping sandbox can be resumed from. `told` is what the provider has said of it. */
export async function checkpointOf(work: Work, pausing: Pausing, told?: string): Promise<SeenCheckpoint> {
  const { provider, sandbox } = work
  const checkpointRef = await provider.poll(provider.patience.pendingMs, async () => {
    const seen = await look(work)
    if (seen.is === 'running') {
      return { still: new BackendError('sandbox_unreachable', `${sandbox.id} was to be suspended, and still runs.`) }
    }
    const shown = seen.is === 'suspended' ? (seen.checkpointRef ?? told) : undefined
    if (shown !== undefined) return { answer: shown }
    const still = new BackendError(
      'checkpoint_missing',
      `${sandbox.id} was suspended, and its provider has no checkpoint.`,
    )
    // What is shown may lag behind the pause. What has vanished does not come back.
    if (seen.is !== 'suspended') throw still
    return { still }
  })
  return verified(work, pausing, { kind: 'pause', checkpointRef })
}

/** Asleep, with nothing that it could be resumed from later: it comes back now, or it is gone. */
export async function wakeAgain(work: Work, pausing: Pausing, error: Failure): Promise<Ending> {
  const { provider, operation, sandbox } = work
  const sleeping = { ref: refOf(work), checkpointRef: undefined }
  const asked = { key: operation.id, ttlMs: work.leaseMs }
  try {
    const before = await look(work)
    if (before.is === 'lost') throw new BackendError('checkpoint_missing', `${sandbox.id} is lost: ${before.why}.`)
    await provider.ask('resume', (call) => pausing.resume(sleeping, asked, call))
    const awake = await provider.poll(provider.patience.pendingMs, async () => {
      const seen = await look(work)
      if (seen.is === 'running') return { answer: seen }
      // What is shown may lag behind the waking.
      const still = new BackendError('sandbox_unreachable', `${sandbox.id} was woken, and still sleeps.`)
      if (seen.is === 'suspended') return { still }
      throw new BackendError('sandbox_expired', `${sandbox.id} vanished while it woke.`)
    })
    return { status: 'failed', error, rest: running(awake) }
  } catch (thrown) {
    if (!isBackendError(thrown, 'checkpoint_missing', 'checkpoint_corrupt', 'sandbox_expired')) throw thrown
  }
  await endInstance(work, refOf(work))
  const reason = error.error_type === 'checkpoint_corrupt' ? 'checkpoint_corrupt' : 'checkpoint_missing'
  return { status: 'failed', error, rest: { state: 'gone', reason } }
}
