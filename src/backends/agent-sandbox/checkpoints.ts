import { BackendError, type Call, type CheckpointCondition, type ListedCheckpoint, type Listing } from '../backend.ts'
import { checkpointRefOf, findInstance, sightingOf } from './instance.ts'
import { discardPodSnapshot, listPodSnapshots, verifyPodSnapshot } from './pod-snapshots.ts'
import type { Site } from './site.ts'
import { verifyVolumes } from './volumes.ts'

/** What a pause leaves: `<ref>@<pod>`, or with the memory of that, `<ref>@snapshot:<name>`. */
const SNAPSHOT = 'snapshot:'

export const sleepsOnSnapshot = (name: string) => `${SNAPSHOT}${name}`

/** The pod snapshot that a checkpoint is; undefined where it is a sandbox that sleeps, and what is on its volume. */
export function snapshotIn(checkpointRef: string): string | undefined {
  const [, what = ''] = checkpointRef.split('@')
  return what.startsWith(SNAPSHOT) ? what.slice(SNAPSHOT.length) : undefined
}

export async function verify(site: Site, checkpointRef: string, call: Call): Promise<CheckpointCondition> {
  const [ref = '', run] = checkpointRef.split('@')
  const instance = await findInstance(site, ref, call)
  if (!instance?.sandbox) return { is: 'missing', why: `there is no ${ref}` }
  const volumes = await verifyVolumes(site, instance.sandbox, call)
  if (volumes.is !== 'ready') return volumes
  const snapshot = snapshotIn(checkpointRef)
  if (snapshot !== undefined) return verifyPodSnapshot(site, snapshot, call)
  const seen = sightingOf(instance)
  const isMeant = checkpointRefOf(instance) === checkpointRef
  if (seen.is === 'suspended' && isMeant) return { is: 'ready' }
  if (isMeant || instance.pod?.uid === run) return { is: 'pending' }
  return { is: 'missing', why: `${ref} is ${seen.is}, and what it sleeps on would be ${checkpointRefOf(instance)}` }
}

/** Of what is only on its volume there is nothing to delete: that is the sandbox itself. */
export async function discard(site: Site, checkpointRef: string, call: Call): Promise<void> {
  const snapshot = snapshotIn(checkpointRef)
  if (snapshot !== undefined) await discardPodSnapshot(site, snapshot, call)
}

export async function listCheckpoints(
  site: Site,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedCheckpoint>> {
  const { items, next } = await listPodSnapshots(site, cursor, call)
  const listed = items.map(({ name, ref, sandboxId }) => ({
    ref: `${ref}@${sleepsOnSnapshot(name)}`,
    sandboxId,
    kind: 'pause' as const,
  }))
  return { items: listed, next }
}

export function missing(checkpointRef: string, why: string): BackendError {
  return new BackendError('checkpoint_missing', `Cannot resume from ${checkpointRef}: ${why}`)
}
