import { BackendError, type Call } from '../backend.ts'
import type { Housing } from '../kubernetes/agents.ts'
import { requireSame } from '../kubernetes/cluster.ts'
import { nameIn } from '../kubernetes/names.ts'
import type { Pod } from '../kubernetes/pod.ts'
import { whyOf } from '../kubernetes/pod-state.ts'
import { expired, findPod, requireOwn } from '../kubernetes/pods.ts'
import { CLAIM_MARK, type Claim, findClaim, isClaimName } from './claim.ts'
import { findSandbox, MARK, type Sandbox } from './resource.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

/** All that there is of a sandbox: the resource, its pod, and the claim by which it was taken from a pool. */
export type Instance = { ref: string; claim: Claim | undefined; sandbox: Sandbox | undefined; pod: Pod | undefined }

/**
 * Undefined when there is none, in the very cluster that it was in; fails for what is not this fleet's. The pod is looked at last: it
 * follows from the others.
 */
export async function findInstance(site: Site, ref: string, call: Call): Promise<Instance | undefined> {
  const { cluster } = site
  const name = nameIn(cluster.home, ref)
  const claim = isClaimName(name) ? await findClaim(site, name, call) : undefined
  const sandbox = await findOf(site, claim, name, call)
  const owned = claim ?? sandbox
  if (!owned) {
    await requireSame(cluster, ref, call)
    return undefined
  }
  requireOwn(cluster.home, owned, ref)
  const pod = sandbox && (await findPod(cluster, sandbox.podName, call))
  return {
    ref,
    sandbox,
    // What was adopted may have been claimed by somebody else: then that claim would be given another one if this is ended.
    claim: claim ?? (sandbox?.claim ? await findClaim(site, sandbox.claim, call) : undefined),
    pod: pod?.owner === sandbox?.uid ? pod : undefined,
  }
}

async function findOf(site: Site, claim: Claim | undefined, name: string, call: Call): Promise<Sandbox | undefined> {
  if (!claim) return findSandbox(site, name, call)
  const sandbox = claim.boundTo ? await findSandbox(site, claim.boundTo, call) : undefined
  return sandbox?.claim === claim.name ? sandbox : undefined
}

export async function requireInstance(site: Site, ref: string, call: Call): Promise<Instance> {
  const instance = await findInstance(site, ref, call)
  if (instance) return instance
  throw expired(site.cluster.home, ref)
}

/** The name under which its agents are kept: that of its pod, or of the one that it goes on as. */
export function rootOf({ annotations }: Sandbox, { uid }: Pod): string {
  const [of, root] = annotations[MARK.root]?.split(' ') ?? []
  return of === uid && root ? root : uid
}

/** Where its agents are; undefined while it sleeps, and nothing of it can be asked. */
export async function housingOf(site: Site, ref: string, call: Call): Promise<Housing | undefined> {
  const instance = await requireInstance(site, ref, call)
  const { pod, claim, sandbox } = instance
  const own = claim?.annotations[CLAIM_MARK.agent] === undefined ? 'main process' : 'in a shell'
  if (pod && sandbox) return { pod, own, root: rootOf(sandbox, pod) }
  const seen = sightingOf(instance)
  if (seen.is === 'suspended') return undefined
  throw new BackendError('sandbox_unreachable', `${ref} is not ready: ${whyOf(seen)}`)
}
