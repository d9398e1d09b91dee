import { BackendError, type Call, type Target } from '../backend.ts'
import { deletePod } from '../kubernetes/end.ts'
import { isAbsent, isConflict } from '../kubernetes/errors.ts'
import { incarnationOf, type Pod } from '../kubernetes/pod.ts'
import { overtaken } from '../targets.ts'
import { deleteClaim } from './claim.ts'
import { findInstance, type Instance } from './instance.ts'
import { despiteOthers, lookAgainMs } from './patience.ts'
import { type Sandbox, sandboxesPath } from './resource.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

const GONE_MS_MAX = 45_000

/** Ends what is meant, and nothing that was resumed meanwhile: of what has been changed since it was looked at, nothing is deleted. */
export function end(site: Site, target: Target, call: Call): Promise<void> {
  return endWhile(site, target.ref, (instance) => requireEndable(instance, target), call)
}

/** However often somebody else changes it meanwhile. What has to hold of it is looked at each time. */
export async function endWhile(
  site: Site,
  ref: string,
  require: (instance: Instance) => void,
  call: Call,
): Promise<void> {
  await despiteOthers(ref, async () => {
    const instance = await findInstance(site, ref, call)
    if (!instance) return true
    require(instance)
    return endInstance(site, instance, call)
  })
}

function requireEndable(instance: Instance, { ref, incarnation }: Target): void {
  const { is } = sightingOf(instance)
  // What is lost, or is being deleted by somebody else, cannot be woken any more: a late call can hit nothing that lives.
  if (is === 'lost' || instance.claim?.isDeleted || instance.sandbox?.isDeleted) return
  const isAwake = instance.pod && is !== 'suspended'
  const now = isAwake && instance.pod ? incarnationOf(instance.pod) : null
  if (now !== incarnation)
    throw overtaken(ref, `it is ${now ?? 'one that does not run'}, and ${incarnation ?? 'such a one'} was meant`)
}

/**
 * Deletes it, with its volumes and its pod, and returns when there is nothing left of it; false when it has been changed since it was
 * seen. The resource goes first, because its controller would make another pod.
 */
async function endInstance(site: Site, instance: Instance, call: Call): Promise<boolean> {
  const { ref, claim, sandbox, pod } = instance
  if (sandbox && !(await deleteSandbox(site, sandbox, call))) return false
  if (claim) await deleteClaim(site, claim, call)
  // With a short grace period: deleted by its controller it would have as long as any pod that others delete.
  if (pod) await removePod(site, instance, pod, call)
  const until = Date.now() + GONE_MS_MAX
  for (let looks = 0; ; await site.cluster.watch.change(ref, lookAgainMs(looks++), call)) {
    const left = await findInstance(site, ref, call)
    const isSame = left && (left.claim?.uid ?? left.sandbox?.uid) === (claim?.uid ?? sandbox?.uid)
    if (!isSame) return true
    if (Date.now() > until)
      throw new BackendError('sandbox_unreachable', `${ref} was deleted, and is still there: is its controller?`)
  }
}

/** A pod out of a pool does not have our labels, so the watch does not tell of it. */
const UNWATCHED_MS = 250

/** Where there is another one already, that is as good. */
export async function removePod(site: Site, { ref, claim }: Instance, pod: Pod, call: Call): Promise<void> {
  await deletePod(site.cluster, pod, ref, call, claim && UNWATCHED_MS).catch((error: unknown) => {
    if (!(error instanceof BackendError && error.type === 'overtaken')) throw error
  })
}

/** All that it owns goes before it does, so that what is gone has left nothing. */
async function deleteSandbox(site: Site, { name, uid, version, isDeleted }: Sandbox, call: Call): Promise<boolean> {
  if (isDeleted) return true
  const path = `${sandboxesPath(site)}/${name}`
  const preconditions = { uid, resourceVersion: version }
  const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions, propagationPolicy: 'Foreground' }
  try {
    await site.cluster.api.json({ method: 'DELETE', path, body }, call)
    return true
  } catch (error) {
    if (isAbsent(error, name)) return true
    if (isConflict(error)) return false
    throw error
  }
}
