import { BackendError, type Pausing } from '../backends/backend.ts'
import type { SeenCheckpoint } from '../db/settle.ts'
import { look, refOf, verified } from './look.ts'
import type { Work } from './operation.ts'

export async function suspend(work: Work, pausing: Pausing, incarnation: string): Promise<void> {
  const target = { ref: refOf(work), incarnation }
  await work.provider.ask('suspend', (call) => pausing.suspend(target, { key: work.operation.id }, call))
}

/** What a sleeping sandbox can be resumed from: seen at the provider, and whole. */
export async function checkpointOf(work: Work, pausing: Pausing): Promise<SeenCheckpoint> {
  const { provider, sandbox } = work
  const checkpointRef = await provider.poll(provider.patience.pendingMs, async () => {
    const seen = await look(work)
    if (seen.is === 'running') {
      return { still: new BackendError('sandbox_unreachable', `${sandbox.id} was to be suspended, and still runs.`) }
    }
    if (seen.is === 'suspended' && seen.checkpointRef !== undefined) return { answer: seen.checkpointRef }
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
