import type { Sighting } from '../backend.ts'
import { LABEL } from '../kubernetes/labels.ts'
import { incarnationOf, type Pod } from '../kubernetes/pod.ts'
import { stateOf } from '../kubernetes/pod-state.ts'
import type { Instance } from './instance.ts'
import { MARK, type Sandbox } from './resource.ts'

/** How long a pod that is ready may take to say what it was made from. */
export const PROOF_MS_MAX = 5_000

/**
 * It sleeps when that was asked for, its controller has seen it, and there is no pod: none of these alone. And it sleeps when its pod
 * has ended by itself, or is not what it was to be: what it can be woken from is still there, and another pod will have it.
 */
export function sightingOf(instance: Instance): Sighting {
  const { claim, sandbox, pod } = instance
  const incarnation = pod && incarnationOf(pod)
  const changing = (why: string): Sighting => ({ is: 'changing', why, ...(incarnation && { incarnation }) })
  if (claim?.isDeleted || sandbox?.isDeleted) return changing('it is being deleted')
  const lost = whyLost(instance)
  if (lost) return { is: 'lost', why: lost }
  if (!sandbox) return changing(claim?.why ?? 'it was claimed, and is not there yet')
  if (sandbox.isToSleep) {
    if (pod) return changing('it is being put to sleep')
    return isSeenAsleep(sandbox) ? asleep(instance) : changing('its controller has not put it to sleep yet')
  }
  if (!pod) return isExpired(sandbox) ? asleep(instance) : changing(`it has no pod yet${whyNotReady(sandbox)}`)
  const state = stateOf(pod)
  if (state.is === 'ended' || state.is === 'evicted') return asleep(instance)
  if (state.is !== 'running') return changing(state.why)
  if (!isProven(sandbox, pod)) {
    const why = `it does not say that it was restored from ${sandbox.annotations[MARK.restores]}`
    return hasBegunAnew(sandbox, pod) ? asleep(instance) : changing(why)
  }
  const startedIn = sandbox.annotations[MARK.agentIn]
  if (!claim?.agent || startedIn === pod.uid) return { is: 'running', incarnation: incarnationOf(pod) }
  return startedIn === undefined ? changing('its agent was not started yet') : asleep(instance)
}

/** A claim whose sandbox was deleted is given another one, which has nothing of it. */
function whyLost({ claim, sandbox }: Instance): string | undefined {
  if (!claim?.got || !claim.boundTo || claim.got === sandbox?.uid) return undefined
  const now = sandbox ? `${sandbox.uid} was given to its claim instead` : `${claim.boundTo} is not there`
  return `the sandbox that it was, ${claim.got}, is gone: ${now}`
}

/** Some controllers say of a pod that it is still ending, also after it was seen to be gone; others say nothing. */
function isSeenAsleep({ isObserved, conditions: { Suspended } }: Sandbox): boolean {
  return isObserved && !(Suspended?.isCurrent && Suspended.reason === 'PodTerminating')
}

/** That a pod runs does not mean that it is what was to be restored: it may have begun anew, without a word. */
export function isProven({ annotations }: Sandbox, { conditions: { PodRestored } }: Pod): boolean {
  const snapshot = annotations[MARK.restores]
  return snapshot === undefined || (PodRestored?.status === 'True' && PodRestored.message.includes(snapshot))
}

function hasBegunAnew(sandbox: Sandbox, pod: Pod): boolean {
  const { Ready } = sandbox.conditions
  const isOld = isReady(sandbox, pod) && Date.now() - (Ready?.sinceMs ?? Number.NaN) > PROOF_MS_MAX
  return pod.conditions.PodRestored?.status === 'False' || isOld
}

/** By what its controller says of what it was asked for last, and by what its pod says of itself. */
export function isReady({ conditions: { Ready } }: Sandbox, pod: Pod): boolean {
  const isPodReady = stateOf(pod).is === 'running' && pod.conditions.Ready?.status === 'True'
  return isPodReady && Ready?.isTrue === true && Ready.isCurrent
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
 * Sandbox and checkpoint are one. Its name says which pause it is: by the pod that ran last, or a snapshot of that; or, where somebody
 * else has put it to sleep, by how often it had been changed then.
 */
export function checkpointRefOf({ ref, sandbox, pod }: Instance): string {
  const { [MARK.sleepsOn]: sleepsOn, [MARK.restores]: restores } = sandbox?.annotations ?? {}
  const written = sandbox?.isToSleep ? sleepsOn : restores && sleepsOnSnapshot(restores)
  return `${ref}@${written ?? pod?.uid ?? `g${sandbox?.generation}`}`
}

/** Whose it is, as far as it says so: what says nothing is nobody's, and nothing is written to it. */
export function labelsIn({ claim, sandbox }: Instance) {
  const { labels = {} } = (claim?.labels[LABEL.fleet] ? claim : sandbox) ?? {}
  return labels
}

const SNAPSHOT = 'snapshot:'

export const sleepsOnSnapshot = (name: string) => `${SNAPSHOT}${name}`

/** The pod snapshot that a checkpoint is; undefined where it is a sandbox that sleeps, and what is on its volume. */
export function snapshotIn(checkpointRef: string): string | undefined {
  const [, what = ''] = checkpointRef.split('@')
  return what.startsWith(SNAPSHOT) ? what.slice(SNAPSHOT.length) : undefined
}
