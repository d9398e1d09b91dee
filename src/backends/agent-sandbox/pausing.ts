import { BackendError, type Call, type Target, type Waking } from '../backend.ts'
import { deletePod } from '../kubernetes/end.ts'
import { incarnationOf, type Pod } from '../kubernetes/pod.ts'
import { stateOf } from '../kubernetes/pod-state.ts'
import { overtaken, requireRunning } from '../kubernetes/targets.ts'
import { missing, sleepsOnSnapshot, snapshotIn, verify } from './checkpoints.ts'
import { startClaimed } from './create-claim.ts'
import {
  checkpointRefOf,
  type Instance,
  isExpired,
  isProven,
  requireInstance,
  sightingOf,
  whyNotReady,
} from './instance.ts'
import { takePodSnapshot } from './pod-snapshots.ts'
import { changeSandbox, SANDBOX_ANNOTATION, type Sandbox, SNAPSHOT_NAME } from './resource.ts'
import type { Site } from './site.ts'
import { volumesOf } from './volumes.ts'

/** How long a pod may take to end, and its controller to see that. Whoever asks again goes on waiting. */
const ASLEEP_MS_MAX = 240_000
/** How long a new pod may take to be ready. One that needs longer is on its way, and whoever looks sees that. */
const READY_MS_MAX = 45_000
const LOOK_AGAIN_MS = 500
/** Its controller writes to it, too. */
const CHANGES_MAX = 20
/** Pods that have ended are replaced by another one. When so many of those end as well, there is no use. */
const REPLACED_MAX = 2

/**
 * Puts it to sleep, and returns when it was seen to sleep.
 *
 * Asked twice: the second finds that it was asked for, and waits for the same.
 * Killed half-way: what it sleeps on was written down with the wish, or before it.
 */
export async function suspend(site: Site, target: Target, key: string, call: Call): Promise<{ checkpointRef: string }> {
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    const instance = await requireInstance(site, target.ref, call)
    const { sandbox, pod } = instance
    if (sandbox?.isToSleep) return whenAsleep(site, target.ref, call)
    if (!sandbox || sandbox.isDeleted || !pod) throw notReady(instance)
    const hasEnded = sightingOf(instance).is === 'suspended'
    if (!hasEnded) requireRunning(pod, target)
    const { labels } = instance.claim ?? sandbox
    const sleepsOn =
      site.keeps === 'disk' || hasEnded
        ? pod.uid
        : sleepsOnSnapshot(await takePodSnapshot(site, pod, { ref: target.ref, labels, key }, call))
    const volumes = await volumesOf(site, sandbox, call)
    const annotations = { [SANDBOX_ANNOTATION.sleepsOn]: sleepsOn, [SANDBOX_ANNOTATION.volumes]: volumes }
    const spec = site.served.dialect.spec('asleep')
    if (await changeSandbox(site, sandbox, { metadata: { annotations }, spec }, call))
      return whenAsleep(site, target.ref, call)
  }
  throw new BackendError('sandbox_unreachable', `${target.ref} is changed by others again and again`)
}

async function whenAsleep(site: Site, ref: string, call: Call): Promise<{ checkpointRef: string }> {
  for (const until = Date.now() + ASLEEP_MS_MAX; ; ) {
    const instance = await requireInstance(site, ref, call)
    const seen = sightingOf(instance)
    if (seen.is === 'suspended') return { checkpointRef: checkpointRefOf(instance) }
    if (!instance.sandbox?.isToSleep) throw overtaken(ref, 'somebody has woken it')
    if (Date.now() > until) throw notReady(instance)
    await site.cluster.watch.change(instance.pod?.name ?? ref, LOOK_AGAIN_MS, call)
  }
}

/**
 * Wakes it: another pod, with the same volume, and where there is a snapshot of its memory, with that. Returns when the pod is ready, by
 * what its controller says of what it was asked for last, and not of what was before.
 */
export async function resume(
  site: Site,
  { ref, checkpointRef }: { ref: string; checkpointRef: string | undefined },
  _asked: Waking,
  call: Call,
): Promise<void> {
  const before = await requireInstance(site, ref, call)
  if (sightingOf(before).is === 'suspended') {
    const there = checkpointRefOf(before)
    if (checkpointRef !== undefined && checkpointRef !== there) throw missing(checkpointRef, `what sleeps is ${there}`)
    const condition = await verify(site, there, call)
    if (condition.is === 'missing' || condition.is === 'corrupt')
      throw new BackendError(`checkpoint_${condition.is}`, `Cannot resume from ${there}: ${condition.why}`)
    await wake(site, before, snapshotIn(there), call)
  }
  const awake = await whenReady(site, ref, call)
  if (awake) await startClaimed(site, awake, call)
}

async function wake(site: Site, { ref, sandbox, pod }: Instance, snapshot: string | undefined, call: Call) {
  if (!sandbox) return
  if (!sandbox.isToSleep && pod && !isExpired(sandbox)) return deletePod(site.cluster, pod, ref, call) // its controller makes another
  const metadata = { annotations: { [SANDBOX_ANNOTATION.sleepsOn]: null, [SANDBOX_ANNOTATION.volumes]: null } }
  const spec = {
    ...site.served.dialect.spec('awake'),
    ...(snapshot !== sandbox.restores && restoring(snapshot)),
    ...(isExpired(sandbox) && { shutdownTime: null }),
  }
  // Who was faster has woken it, or has changed something else: whoever waits for it sees which.
  await changeSandbox(site, sandbox, { metadata, spec }, call)
}

/** Undefined when it is still on its way after a while. */
async function whenReady(site: Site, ref: string, call: Call): Promise<Instance | undefined> {
  let replaced = 0
  for (const until = Date.now() + READY_MS_MAX; ; ) {
    const instance = await requireInstance(site, ref, call)
    const { sandbox, pod } = instance
    if (!sandbox || sandbox.isDeleted || sandbox.isToSleep) throw notReady(instance)
    const state = pod && stateOf(pod)
    if (pod && (state?.is === 'ended' || state?.is === 'evicted')) {
      if (replaced++ >= REPLACED_MAX)
        throw new BackendError('sandbox_unreachable', `${ref} was woken, and has ended again: ${state.why}`)
      await deletePod(site.cluster, pod, ref, call)
    }
    const { Ready } = sandbox.conditions
    const isReady = state?.is === 'running' && Ready?.isTrue && Ready.isCurrent
    if (pod && isReady && !isProven(sandbox, pod)) {
      if (Date.now() > until || pod.conditions.PodRestored?.status === 'False') throw notRestored(ref, sandbox, pod)
    } else if (isReady && sandbox.restores !== undefined) {
      // A pod that comes after this one, because its node was lost, is not to go back to what was then.
      await changeSandbox(site, sandbox, { spec: restoring(undefined) }, call)
    } else if (isReady) return instance
    else if (Date.now() > until) return undefined
    await site.cluster.watch.change(pod?.name ?? sandbox.podName, LOOK_AGAIN_MS, call)
  }
}

/** What a pod is to begin as; or that it is to begin as it is. */
function restoring(snapshot: string | undefined): object {
  return { podTemplate: { metadata: { annotations: { [SNAPSHOT_NAME]: snapshot ?? null } } } }
}

function notRestored(ref: string, { restores }: Sandbox, pod: Pod): BackendError {
  const { PodRestored } = pod.conditions
  const why = PodRestored ? `${PodRestored.reason} (${PodRestored.message})` : 'its pod does not say that it was'
  return new BackendError(
    'checkpoint_corrupt',
    `${ref} began anew as ${incarnationOf(pod)}, and was not restored from ${restores}: ${why}`,
  )
}

function notReady(instance: Instance): BackendError {
  const seen = sightingOf(instance)
  const why = 'why' in seen ? seen.why : seen.is
  return new BackendError(
    'sandbox_unreachable',
    `${instance.ref} is not ready: ${why}${instance.sandbox ? whyNotReady(instance.sandbox) : ''}`,
  )
}
