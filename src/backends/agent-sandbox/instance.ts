import { BackendError, type Call, type Sighting } from '../backend.ts'
import type { Housing } from '../kubernetes/agents.ts'
import { nameIn } from '../kubernetes/names.ts'
import { incarnationOf, type Pod } from '../kubernetes/pod.ts'
import { stateOf } from '../kubernetes/pod-state.ts'
import { expired, findPod, requireOwn } from '../kubernetes/pods.ts'
import { type Claim, findClaim } from './claim.ts'
import { findSandbox, SANDBOX_ANNOTATION, type Sandbox } from './resource.ts'
import type { Site } from './site.ts'

/** All that there is of a sandbox: the resource, its pod, and the claim by which it was taken from a pool. */
export type Instance = { ref: string; claim: Claim | undefined; sandbox: Sandbox | undefined; pod: Pod | undefined }

/** Undefined when there is none; fails for what is not this fleet's. The pod is looked at last: it follows from the others. */
export async function findInstance(site: Site, ref: string, call: Call): Promise<Instance | undefined> {
  const { home, options } = site.cluster
  const name = nameIn(home, ref)
  let sandbox = await findSandbox(site, name, call)
  const claim = sandbox || !options.pool ? undefined : await findClaim(site, name, call)
  const owned = claim ?? sandbox
  if (!owned) return undefined
  requireOwn(home, owned, ref)
  if (claim?.boundTo) sandbox = await findSandbox(site, claim.boundTo, call)
  const pod = sandbox && (await findPod(site.cluster, sandbox.podName, call))
  return { ref, claim, sandbox, pod }
}

export async function requireInstance(site: Site, ref: string, call: Call): Promise<Instance> {
  const instance = await findInstance(site, ref, call)
  if (instance) return instance
  throw expired(site.cluster.home, ref)
}

/**
 * It sleeps when that was asked for, its controller has seen it, and there is no pod: none of these alone. And it sleeps when its pod
 * has ended by itself: what is on its volume is still there, and another pod will have it.
 */
export function sightingOf(instance: Instance): Sighting {
  const { claim, sandbox, pod } = instance
  const incarnation = pod && incarnationOf(pod)
  const changing = (why: string): Sighting => ({ is: 'changing', why, ...(incarnation && { incarnation }) })
  if (claim?.isDeleted || sandbox?.isDeleted) return changing('it is being deleted')
  if (!sandbox) return changing(claim?.why ?? 'it was claimed, and is not there yet')
  if (sandbox.isToSleep) {
    if (pod) return changing('it is being put to sleep')
    return sandbox.isObserved ? asleep(instance) : changing('its controller has not put it to sleep yet')
  }
  if (!pod) return isExpired(sandbox) ? asleep(instance) : changing(`it has no pod yet${whyNotReady(sandbox)}`)
  const state = stateOf(pod)
  if (state.is === 'running')
    return isProven(sandbox, pod)
      ? { is: 'running', incarnation: incarnationOf(pod) }
      : changing(`it does not say that it was restored from ${sandbox.restores}`)
  return state.is === 'ended' || state.is === 'evicted' ? asleep(instance) : changing(state.why)
}

/** That a pod runs does not mean that it is what was to be restored: it may have begun anew, without a word. */
export function isProven({ restores }: Sandbox, { conditions: { PodRestored } }: Pod): boolean {
  return restores === undefined || (PodRestored?.status === 'True' && PodRestored.message.includes(restores))
}

/** Its own time is over, which somebody else has set: its pod was removed, and it was not. */
export function isExpired({ conditions: { Ready } }: Sandbox): boolean {
  return Ready?.isCurrent === true && Ready.reason === 'SandboxExpired'
}

export function whyNotReady({ conditions: { Ready } }: Sandbox): string {
  return Ready?.isCurrent && !Ready.isTrue && Ready.reason ? `: ${Ready.reason} (${Ready.message})` : ''
}

function asleep(instance: Instance): Sighting {
  return { is: 'suspended', checkpointRef: checkpointRefOf(instance) }
}

/**
 * Sandbox and checkpoint are one. Its name says which pause it is: by the pod that ran last; or, where somebody else has put it to
 * sleep, by how often it had been changed then.
 */
export function checkpointRefOf({ ref, sandbox, pod }: Instance): string {
  const written = sandbox?.annotations[SANDBOX_ANNOTATION.sleepsOn]
  return `${ref}@${written ?? pod?.uid ?? `g${sandbox?.generation}`}`
}

/** Where its agents are; undefined while it sleeps, and nothing of it can be asked. */
export async function housingOf(site: Site, ref: string, call: Call): Promise<Housing | undefined> {
  const instance = await requireInstance(site, ref, call)
  const seen = sightingOf(instance)
  const { pod, claim } = instance
  if (pod) return { pod, own: claim ? 'in a shell' : 'main process' }
  if (seen.is === 'suspended') return undefined
  throw new BackendError('sandbox_unreachable', `${ref} is not ready: ${'why' in seen ? seen.why : seen.is}`)
}
