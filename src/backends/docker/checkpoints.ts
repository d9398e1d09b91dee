import type { Call, CheckpointCondition, Target } from '../backend.ts'
import { rename } from './containers.ts'
import { hasDump } from './dump.ts'
import { commit, findImage, untag } from './images.ts'
import { findInstance, ownerOf } from './instance.ts'
import { IMAGE_LABEL } from './labels.ts'
import { sleepingOf } from './look.ts'
import {
  type CheckpointName,
  checkpointRefOf,
  isContainerId,
  isOurs,
  parseCheckpointRef,
  snapshotImage,
  wordOf,
} from './names.ts'
import type { Site } from './site.ts'
import { changing, requireRunning } from './targets.ts'

/** Looks at the thing itself: the image of a snapshot, or, of a pause, what sleeps. */
export async function verify(site: Site, checkpointRef: string, call: Call): Promise<CheckpointCondition> {
  const name = nameOf(site, checkpointRef)
  const missing = { is: 'missing', why: `the Docker engine has no checkpoint ${checkpointRef}` } as const
  if (!name) return missing
  return name.kind === 'snapshot' ? verifySnapshot(site, name, missing, call) : verifySleep(site, name, missing, call)
}

type Missing = Extract<CheckpointCondition, { is: 'missing' | 'corrupt' }>

async function verifySnapshot(
  site: Site,
  name: CheckpointName,
  missing: Missing,
  call: Call,
): Promise<CheckpointCondition> {
  const image = await findImage(site, snapshotImage(site.home, name), call)
  if (!image) return missing
  if (image.labels[IMAGE_LABEL.ref] === name.ref && image.labels[IMAGE_LABEL.key] === name.key)
    return { is: 'ready', sizeBytes: image.sizeBytes }
  return {
    is: 'corrupt',
    why: `${snapshotImage(site.home, name)} is not an image that Sandman has made of ${name.ref}`,
  }
}

async function verifySleep(
  site: Site,
  name: CheckpointName,
  missing: Missing,
  call: Call,
): Promise<CheckpointCondition> {
  const instance = await findInstance(site, name.ref, call)
  const { agent, asleep } = instance
  const isThis = (sleep: { mode: string; key: string } | undefined) =>
    sleep?.mode === name.kind && sleep.key === name.key
  if (!isThis(sleepingOf(instance)))
    return agent?.state === 'running' && isThis(agent.name.sleep) ? { is: 'pending' } : missing
  if (asleep) return { is: 'ready', sizeBytes: asleep.sizeBytes }
  if (name.kind === 'checkpoint' && agent && !(await hasDump(site, agent.id, name.key, call))) return missing
  return { is: 'ready' }
}

/** A pause has nothing to discard: what sleeps is the sandbox itself, and goes when that is ended. */
export async function discard(site: Site, checkpointRef: string, call: Call): Promise<void> {
  const name = nameOf(site, checkpointRef)
  if (name?.kind === 'snapshot') await untag(site, snapshotImage(site.home, name), call)
}

/** Copies the files of a sandbox that runs on; it stands still meanwhile. */
export async function takeSnapshot(
  site: Site,
  target: Target,
  { key, name }: { key: string; name: string | undefined },
  call: Call,
): Promise<{ checkpointRef: string }> {
  const { ref } = target
  const snapshot = { ref, kind: 'snapshot', key } as const
  const image = snapshotImage(site.home, snapshot)
  return changing(site, ref, call, async (instance) => {
    const checkpointRef = checkpointRefOf(snapshot)
    if (await findImage(site, image, call)) return { checkpointRef }
    const agent = await requireRunning(site, instance, target, call)
    // While it is copied the engine shows it as paused, and a name of a pause that came to nothing would say that it sleeps.
    const fullName = await rename(site, agent, { ...agent.name, sleep: undefined }, call)
    const { sandboxId, life } = ownerOf(instance)
    const labels = {
      [IMAGE_LABEL.fleet]: site.home.fleet,
      [IMAGE_LABEL.sandbox]: sandboxId,
      [IMAGE_LABEL.life]: life,
      [IMAGE_LABEL.ref]: ref,
      [IMAGE_LABEL.kind]: 'snapshot',
      [IMAGE_LABEL.key]: wordOf(key),
      ...(name !== undefined && { [IMAGE_LABEL.name]: name }),
    }
    await commit(site, fullName, image, labels, call)
    return { checkpointRef }
  })
}

/** Undefined of what cannot be here. */
function nameOf(site: Site, checkpointRef: string): CheckpointName | undefined {
  const name = parseCheckpointRef(checkpointRef)
  return name && (isContainerId(name.ref) || isOurs(site.home, name.ref)) ? name : undefined
}
