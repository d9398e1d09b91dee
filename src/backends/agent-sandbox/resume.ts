import { BackendError, type Call } from '../backend.ts'
import { incarnationOf, type Pod } from '../kubernetes/pod.ts'
import { stateOf } from '../kubernetes/pod-state.ts'
import { isMeant, verify } from './checkpoints.ts'
import { claimRestoring } from './claim.ts'
import { startClaimed } from './create-claim.ts'
import { removePod } from './end.ts'
import { type Instance, requireInstance } from './instance.ts'
import { despiteOthers, lookAgainMs } from './patience.ts'
import { changeSandbox, MARK, type Sandbox } from './resource.ts'
import { restoring, settle } from './settle.ts'
import { checkpointRefOf, isExpired, isProven, isReady, PROOF_MS_MAX, sightingOf, snapshotIn } from './sighting.ts'
import type { Site } from './site.ts'
import { notReady } from './suspend.ts'

/** How long a new pod may take to be ready. One that needs longer is on its way, and whoever looks sees that. */
const READY_MS_MAX = 45_000
/** How long what a claim says may take to come to the template of what it got. */
const SAID_MS_MAX = 15_000
/** Pods that have ended are replaced by another one. When so many of those end as well, there is no use. */
const REPLACED_MAX = 2

type Sleeping = { ref: string; checkpointRef: string | undefined }

/**
 * Wakes it: another pod, with the same volume, and where there is a snapshot of its memory, with that. Returns when the pod is ready, by
 * what its controller says of what it was asked for last, and not of what was before.
 *
 * Asked twice, or at once: one of them wakes it, and the others wait for the same.
 * Killed half-way: what it is woken from stays written down until it was seen to be awake, so that whoever asks again goes on.
 */
export async function resume(site: Site, { ref, checkpointRef }: Sleeping, call: Call): Promise<void> {
  await despiteOthers(ref, async () => {
    const before = await requireInstance(site, ref, call)
    const seen = sightingOf(before)
    if (seen.is === 'lost') throw missing(checkpointRef ?? ref, seen.why)
    if (seen.is !== 'suspended') return true
    const from = checkpointRef ?? checkpointRefOf(before)
    if (!isMeant(before, from)) throw missing(from, `what sleeps is ${checkpointRefOf(before)}`)
    const condition = await verify(site, from, call)
    if (condition.is === 'pending')
      throw new BackendError('sandbox_unreachable', `Cannot resume from ${from} yet: it is still being written`)
    if (condition.is !== 'ready')
      throw new BackendError(`checkpoint_${condition.is}`, `Cannot resume from ${from}: ${condition.why}`)
    return wake(site, before, from, call)
  })
  const awake = await whenReady(site, ref, call)
  if (awake) await startClaimed(site, awake, call)
}

/** False when it was changed by somebody else, and nothing was done. */
async function wake(site: Site, instance: Instance, from: string, call: Call): Promise<boolean> {
  const { ref, sandbox, claim, pod } = instance
  if (!sandbox) return false
  const hasEnded = pod && ['ended', 'evicted'].includes(stateOf(pod).is)
  if (pod && !hasEnded && !sandbox.isToSleep) return true // it was woken, and that was not brought to its end
  const snapshot = snapshotIn(from)
  if (claim && snapshot !== sandbox.template && !(await sayOfClaim(site, ref, snapshot, call))) return false
  const marks = {
    [MARK.sleepsOn]: null,
    [MARK.wokenFrom]: from.slice(from.indexOf('@') + 1),
    [MARK.restores]: snapshot ?? null,
    ...(snapshot === undefined && { [MARK.root]: null }),
  }
  const spec = {
    ...site.served.dialect.spec('awake'),
    ...(!claim && snapshot !== sandbox.template && restoring(snapshot)),
    ...(isExpired(sandbox) && { shutdownTime: null }),
  }
  // Written also where nothing is asked of its controller: who is about to end it, as one that sleeps, has then seen an older
  // version, and fails.
  const now = claim ? (await requireInstance(site, ref, call)).sandbox : sandbox
  if (!now || now.uid !== sandbox.uid || now.isToSleep !== sandbox.isToSleep) return false
  if (!(await changeSandbox(site, now, { metadata: { annotations: marks }, spec }, call))) return false
  if (pod && hasEnded) await removePod(site, instance, pod, call) // its controller makes another
  return true
}

/** And waits until the template says it, too: a pod that is made before would begin anew. */
async function sayOfClaim(site: Site, ref: string, snapshot: string | undefined, call: Call): Promise<boolean> {
  const until = Date.now() + SAID_MS_MAX
  for (let looks = 0; ; await site.cluster.watch.change(ref, lookAgainMs(looks++), call)) {
    const { claim, sandbox } = await requireInstance(site, ref, call)
    if (!claim || !sandbox) return false
    if (sandbox.template === snapshot) return true
    await claimRestoring(site, claim, snapshot, call)
    if (Date.now() > until)
      throw new BackendError('sandbox_unreachable', `The template of ${ref} does not say what its claim says`)
  }
}

/** Undefined when it is still on its way after a while. */
async function whenReady(site: Site, ref: string, call: Call): Promise<Instance | undefined> {
  let replaced = 0
  let readyAtMs: number | undefined
  const until = Date.now() + READY_MS_MAX
  for (let looks = 0; ; looks++) {
    const instance = await requireInstance(site, ref, call)
    const { sandbox, pod } = instance
    if (!sandbox || sandbox.isDeleted || sandbox.isToSleep) throw notReady(instance)
    const state = pod && stateOf(pod)
    if (pod && (state?.is === 'ended' || state?.is === 'evicted')) {
      if (replaced++ >= REPLACED_MAX)
        throw new BackendError('sandbox_unreachable', `${ref} was woken, and has ended again: ${state.why}`)
      await removePod(site, instance, pod, call)
    }
    if (pod && isReady(sandbox, pod)) {
      if (!isProven(sandbox, pod)) {
        readyAtMs ??= Date.now()
        const isOver = Date.now() - readyAtMs > PROOF_MS_MAX || pod.conditions.PodRestored?.status === 'False'
        if (isOver) throw notRestored(ref, sandbox, pod)
      } else if (await settle(site, instance, call)) return requireInstance(site, ref, call)
    } else if (Date.now() > until) return undefined
    await site.cluster.watch.change(pod?.name ?? sandbox.podName, lookAgainMs(looks), call)
  }
}

function missing(checkpointRef: string, why: string): BackendError {
  return new BackendError('checkpoint_missing', `Cannot resume from ${checkpointRef}: ${why}`)
}

function notRestored(ref: string, { annotations }: Sandbox, pod: Pod): BackendError {
  const { PodRestored } = pod.conditions
  const why = PodRestored ? `${PodRestored.reason} (${PodRestored.message})` : 'its pod does not say that it was'
  return new BackendError(
    'checkpoint_corrupt',
    `${ref} began anew as ${incarnationOf(pod)}, and was not restored from ${annotations[MARK.restores]}: ${why}`,
  )
}
