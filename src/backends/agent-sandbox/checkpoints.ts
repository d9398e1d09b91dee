import type { Call, CheckpointCondition, ListedCheckpoint, Listing } from '../backend.ts'
import { findInstance, type Instance } from './instance.ts'
import {
  discardPodSnapshot,
  discardTrigger,
  listPodSnapshots,
  triggerIn,
  verifyPodSnapshot,
  verifyTrigger,
} from './pod-snapshots.ts'
import { MARK } from './resource.ts'
import { checkpointRefOf, sightingOf, snapshotIn } from './sighting.ts'
import type { Site } from './site.ts'
import { verifyFiles, verifyVolumes } from './volumes.ts'

/**
 * What a pause leaves: `<ref>@<pod>`, or with the memory of that, `<ref>@snapshot:<name>`. A pause that was cut off may leave
 * `<ref>@trigger:<name>`: what was to become a snapshot.
 */
export async function verify(site: Site, checkpointRef: string, call: Call): Promise<CheckpointCondition> {
  const trigger = triggerIn(checkpointRef)
  if (trigger !== undefined) return verifyTrigger(site, trigger, call)
  const snapshot = snapshotIn(checkpointRef)
  const memory = snapshot === undefined ? undefined : await verifyPodSnapshot(site, snapshot, call)
  if (memory && memory.is !== 'ready') return memory
  const [ref = ''] = checkpointRef.split('@')
  const instance = await findInstance(site, ref, call)
  // A snapshot whose sandbox is gone is `corrupt` and not `missing`, so that it is found and thrown away.
  if (!instance) return { is: memory ? 'corrupt' : 'missing', why: `there is no ${ref}` }
  const seen = sightingOf(instance)
  if (seen.is === 'lost') return { is: memory ? 'corrupt' : 'missing', why: seen.why }
  if (!instance.sandbox) return { is: 'pending' }
  const volumes = await (memory ? verifyVolumes : verifyFiles)(site, instance.sandbox, call)
  if (volumes.is !== 'ready' || memory) return volumes
  if (seen.is === 'suspended' && isMeant(instance, checkpointRef)) return { is: 'ready' }
  const isOnItsWay = seen.is === 'changing' && isMeant(instance, checkpointRef)
  if (isOnItsWay || checkpointRef === `${ref}@${instance.pod?.uid}`) return { is: 'pending' }
  return { is: 'missing', why: `${ref} is ${seen.is}, and what it sleeps on would be ${checkpointRefOf(instance)}` }
}

/**
 * Whether it sleeps on this. That it was woken from it, and has ended again before anybody has seen it awake, makes no difference:
 * nobody knows of another one, and its files are where they were.
 */
export function isMeant(instance: Instance, checkpointRef: string): boolean {
  const wokenFrom = instance.sandbox?.annotations[MARK.wokenFrom]
  const names = [checkpointRefOf(instance), ...(wokenFrom ? [`${instance.ref}@${wokenFrom}`] : [])]
  return names.includes(checkpointRef)
}

/** Of what is only on its volume there is nothing to delete: that is the sandbox itself. */
export async function discard(site: Site, checkpointRef: string, call: Call): Promise<void> {
  const snapshot = snapshotIn(checkpointRef)
  const trigger = triggerIn(checkpointRef)
  if (snapshot !== undefined) await discardPodSnapshot(site, snapshot, call)
  if (trigger !== undefined) await discardTrigger(site, trigger, call)
}

export async function listCheckpoints(
  site: Site,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedCheckpoint>> {
  const { items, next } = await listPodSnapshots(site, cursor, call)
  const listed = items.map(({ ref, what, sandboxId }) => ({ ref: `${ref}@${what}`, sandboxId, kind: 'pause' as const }))
  return { items: listed, next }
}
