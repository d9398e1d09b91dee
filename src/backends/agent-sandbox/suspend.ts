import { BackendError, type Call, type Target } from '../backend.ts'
import type { Pod } from '../kubernetes/pod.ts'
import { whyOf } from '../kubernetes/pod-state.ts'
import { requireRunning } from '../kubernetes/targets.ts'
import { overtaken } from '../targets.ts'
import { type Instance, requireInstance, rootOf } from './instance.ts'
import { despiteOthers, lookAgainMs } from './patience.ts'
import { discardPodSnapshot, takePodSnapshot } from './pod-snapshots.ts'
import { changeSandbox, MARK, type Sandbox } from './resource.ts'
import { checkpointRefOf, labelsIn, sightingOf, sleepsOnSnapshot, whyNotReady } from './sighting.ts'
import type { Site } from './site.ts'
import { verifyFiles, verifyVolumes, volumesOf } from './volumes.ts'

/** How long a pod may take to end, and its controller to see that. Whoever asks again goes on waiting. */
const ASLEEP_MS_MAX = 240_000

/**
 * Puts it to sleep, and returns when it was seen to sleep.
 *
 * Asked twice: the second finds that it was asked for, and waits for the same. At once, with memory: each takes a snapshot, and one of them
 * is what it sleeps on; the other is thrown away.
 * Killed half-way: what it sleeps on was written down with the wish, or before it. A snapshot that nobody sleeps on is listed.
 */
export async function suspend(site: Site, target: Target, key: string, call: Call): Promise<{ checkpointRef: string }> {
  let taken: { of: string; snapshot: string } | undefined
  return despiteOthers(target.ref, async () => {
    const instance = await requireInstance(site, target.ref, call)
    const { sandbox, pod } = instance
    if (sandbox?.isToSleep) {
      const isOurs = taken && sandbox.annotations[MARK.sleepsOn] === sleepsOnSnapshot(taken.snapshot)
      if (taken && !isOurs) await discardPodSnapshot(site, taken.snapshot, call)
      return whenAsleep(site, target.ref, call)
    }
    if (!sandbox || sandbox.isDeleted || !pod) throw notReady(instance)
    const restores = sandbox.annotations[MARK.restores]
    // It has no memory of its own: it has ended, or what runs there is not what it was to be.
    const isAsleep = sightingOf(instance).is === 'suspended'
    const hasMemory = isAsleep ? restores !== undefined : site.keeps === 'memory'
    await requireVolumes(site, instance, sandbox, hasMemory ? verifyVolumes : verifyFiles, call)
    if (!isAsleep) requireRunning(pod, target)
    if (!isAsleep && site.keeps === 'memory' && taken?.of !== pod.uid) {
      const snapshot = await snapshotOf(site, instance, pod, key, call)
      if (snapshot === undefined) return false // somebody else was faster
      taken = { of: pod.uid, snapshot }
    }
    const of = isAsleep ? restores : taken?.snapshot
    const marks = {
      [MARK.sleepsOn]: of === undefined ? pod.uid : sleepsOnSnapshot(of),
      [MARK.wokenFrom]: null,
      [MARK.restores]: null,
      ...(!isAsleep && taken && { [MARK.root]: `${pod.uid} ${rootOf(sandbox, pod)}` }),
      ...(sandbox.annotations[MARK.volumes] === undefined && {
        [MARK.volumes]: (await volumesOf(site, sandbox, call)) ?? null,
      }),
    }
    const spec = site.served.dialect.spec('asleep')
    const changed = await changeSandbox(site, sandbox, { metadata: { annotations: marks }, spec }, call)
    return changed !== undefined && whenAsleep(site, target.ref, call)
  })
}

/** One whose files would not be there any more runs on. */
async function requireVolumes(
  site: Site,
  { ref }: Instance,
  sandbox: Sandbox,
  verify: typeof verifyVolumes,
  call: Call,
): Promise<void> {
  const volumes = await verify(site, sandbox, call)
  if (volumes.is === 'missing' || volumes.is === 'corrupt')
    throw new BackendError(`checkpoint_${volumes.is}`, `${ref} would have nothing to sleep on: ${volumes.why}`)
}

/** Undefined when somebody else has put it to sleep meanwhile, and there is nothing left to take one of. */
async function snapshotOf(
  site: Site,
  instance: Instance,
  pod: Pod,
  key: string,
  call: Call,
): Promise<string | undefined> {
  const { ref } = instance
  try {
    return await takePodSnapshot(site, pod, { ref, labels: labelsIn(instance), key }, call)
  } catch (error) {
    call.signal.throwIfAborted()
    if ((await requireInstance(site, ref, call)).sandbox?.isToSleep) return undefined
    throw error
  }
}

async function whenAsleep(site: Site, ref: string, call: Call): Promise<{ checkpointRef: string }> {
  const until = Date.now() + ASLEEP_MS_MAX
  for (let looks = 0; ; looks++) {
    const instance = await requireInstance(site, ref, call)
    const seen = sightingOf(instance)
    if (seen.is === 'suspended') return { checkpointRef: checkpointRefOf(instance) }
    if (!instance.sandbox?.isToSleep) throw overtaken(ref, 'somebody has woken it')
    if (Date.now() > until) throw notReady(instance)
    await site.cluster.watch.change(instance.pod?.name ?? ref, lookAgainMs(looks), call)
  }
}

export function notReady(instance: Instance): BackendError {
  const why = `${whyOf(sightingOf(instance))}${instance.sandbox ? whyNotReady(instance.sandbox) : ''}`
  return new BackendError('sandbox_unreachable', `${instance.ref} is not ready: ${why}`)
}
