import { BackendError, type Call } from '../backend.ts'
import { overtaken } from '../targets.ts'
import type { Cluster } from './cluster.ts'
import { isAbsent, says } from './errors.ts'
import type { Pod } from './pod.ts'
import { stateOf, whyOf } from './pod-state.ts'
import { findPod, podsPath } from './pods.ts'

/**
 * How long what runs in it may take to end by itself. Not zero: then the API server forgets the pod at once, and nobody would know
 * whether its node has heard of it.
 */
const GRACE_SECONDS = 1
/** How long a node may take to say that it has ended it. */
const GONE_MS_MAX = 45_000
/** A change is told of; this is for those that were not. Whoever has a pod that nobody tells of looks more often. */
const LOOK_AGAIN_MS = 2_000

/**
 * Deletes a pod, with its uid as the condition: what has the same name by then is another one, and stays. Returns when the API server
 * says that it is gone.
 */
export async function deletePod(
  cluster: Cluster,
  { name, uid }: Pod,
  ref: string,
  call: Call,
  everyMs = LOOK_AGAIN_MS,
): Promise<void> {
  const { api, home } = cluster
  const path = `${podsPath(home)}/${name}`
  const body = { kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds: GRACE_SECONDS, preconditions: { uid } }
  try {
    await api.json({ method: 'DELETE', path, body }, call)
  } catch (error) {
    if (isAbsent(error, name)) return
    if (says(error, 409, 'Conflict')) throw overtaken(ref, `${uid} is gone, and there is another one of its name`)
    throw error
  }
  await whenGone(cluster, { name, uid }, ref, call, everyMs)
}

async function whenGone(
  cluster: Cluster,
  { name, uid }: Pick<Pod, 'name' | 'uid'>,
  ref: string,
  call: Call,
  everyMs = LOOK_AGAIN_MS,
): Promise<void> {
  for (const until = Date.now() + GONE_MS_MAX; ; await cluster.watch.change(name, everyMs, call)) {
    const pod = await findPod(cluster, name, call)
    if (pod?.uid !== uid) return
    if (Date.now() < until) continue
    throw new BackendError('sandbox_unreachable', `${ref} was deleted, and is still there: ${whyOf(stateOf(pod))}`)
  }
}
