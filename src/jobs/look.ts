import { BackendError, type CheckpointCondition, type Checkpoints, type Sighting } from '../backends/backend.ts'
import type { Ending, Rest, SeenCheckpoint } from '../db/ending.ts'
import type { Work } from './operation.ts'

type Written = Exclude<CheckpointCondition, { is: 'pending' }>
export type Known = Exclude<Sighting, { is: 'changing' }>

/** The provider's name for the sandbox. Every sandbox that has lived has one. */
export function refOf({ sandbox }: Work): string {
  if (sandbox.provider_ref === null) throw new Error(`${sandbox.id} has no provider_ref, and is ${sandbox.state}`)
  return sandbox.provider_ref
}

/** What is true of an instance at this moment. */
export async function lookNow({ backend, provider, sandbox }: Work, ref: string): Promise<Sighting> {
  const seen = await provider.ask('look', (call) => backend.look(ref, call))
  const { incarnation, provider_ref } = sandbox
  if (seen.is !== 'suspended' || seen.checkpointRef === undefined || backend.pausing === 'none') return seen
  if (ref !== provider_ref || !backend.pausing.precedes?.(seen.checkpointRef, incarnation ?? '')) return seen
  // To wake it would be to go back, without a word, to what it was before its last run.
  return {
    is: 'lost',
    why: `its provider has lost the run of ${incarnation}, and shows what was there before it (${seen.checkpointRef})`,
  }
}

/** What is true of an instance once it has come to rest. */
export async function look(work: Work, ref = refOf(work)): Promise<Known> {
  const { provider } = work
  const seen = await provider.poll<Known>(provider.patience.changingMs, async () => {
    const sighting = await lookNow(work, ref)
    if (sighting.is !== 'changing') return { answer: sighting }
    return { still: new BackendError('sandbox_unreachable', `${work.sandbox.id} is still changing: ${sighting.why}.`) }
  })
  work.evidence.seen = seen.is === 'lost' ? `lost: ${seen.why}` : seen.is
  return seen
}

/** At rest as it was seen to run. Whatever has woken it may have given it another time-to-live: one that is not written down runs out. */
export function running({ incarnation, endsAt }: Extract<Known, { is: 'running' }>): Rest & { state: 'running' } {
  return { state: 'running', incarnation, expiresAt: endsAt }
}

/** What a checkpoint is worth once it has been written, or should have been. */
async function verify({ provider, evidence }: Work, checkpoints: Checkpoints, checkpointRef: string): Promise<Written> {
  const condition = await provider.poll<Written>(provider.patience.pendingMs, async () => {
    const seen = await provider.ask('verify', (call) => checkpoints.verify(checkpointRef, call))
    if (seen.is !== 'pending') return { answer: seen }
    return { still: new BackendError('sandbox_unreachable', `Checkpoint ${checkpointRef} is still being written.`) }
  })
  evidence.checkpoint = { ref: checkpointRef, ...condition }
  return condition
}

/** A checkpoint as it is written down, or a failure that says what is wrong with it. */
export async function verified(
  work: Work,
  checkpoints: Checkpoints,
  { kind, checkpointRef, name }: { kind: SeenCheckpoint['kind']; checkpointRef: string; name?: string | undefined },
): Promise<SeenCheckpoint> {
  const condition = await verify(work, checkpoints, checkpointRef)
  if (condition.is !== 'ready') {
    const type = condition.is === 'missing' ? 'checkpoint_missing' : 'checkpoint_corrupt'
    throw new BackendError(
      type,
      `Checkpoint ${checkpointRef} of ${work.sandbox.id} is ${condition.is}: ${condition.why}.`,
    )
  }
  return { kind, providerRef: checkpointRef, name, sizeBytes: condition.sizeBytes }
}

/** A sandbox may be lost and its files not. The checkpoint is said to be missing only when it was seen to be. */
export async function checkpointAfter({ backend, checkpoint, provider }: Work): Promise<Pick<Ending, 'checkpoints'>> {
  const { pausing } = backend
  if (!checkpoint || pausing === 'none') return {}
  const condition = await provider
    .ask('verify', (call) => pausing.verify(checkpoint.provider_ref, call))
    .catch(() => undefined)
  const isBroken = condition?.is === 'missing' || condition?.is === 'corrupt'
  return isBroken ? { checkpoints: { which: 'own', are: 'missing' } } : {}
}

/** Why an instance is as good as not there, in a clause; undefined when it is there. */
export function whyMissing(seen: Sighting): string | undefined {
  if (seen.is === 'absent') return 'there is no such instance'
  if (seen.is === 'lost') return `it is lost: ${seen.why}`
  return seen.is === 'suspended' && seen.broken !== undefined ? `it cannot be woken: ${seen.broken}` : undefined
}
