import { invalid, preconditionFailed } from './api-error.ts'
import { isObject, type Json, type KubeObject, rfc3339 } from './objects.ts'
import { specOf } from './pods.ts'
import type { Resource } from './resources.ts'
import type { Store } from './store.ts'
import { notSupported } from './validation.ts'

type DeleteOptions = {
  graceSeconds: number | undefined
  propagation: string | undefined
  uid: string | undefined
  resourceVersion: string | undefined
  isDry: boolean
}

const PROPAGATIONS = ['Foreground', 'Background', 'Orphan']

/** The body counts, and what it leaves out is taken from the query. */
export function deleteOptions(resource: Resource, name: string, query: URLSearchParams, body: Json): DeleteOptions {
  const grace = body.gracePeriodSeconds ?? query.get('gracePeriodSeconds') ?? undefined
  const propagation = body.propagationPolicy ?? query.get('propagationPolicy') ?? undefined
  const { uid, resourceVersion } = isObject(body.preconditions) ? body.preconditions : {}
  if (propagation !== undefined && !PROPAGATIONS.includes(String(propagation)))
    throw invalid(resource, name, [notSupported('propagationPolicy', propagation, PROPAGATIONS)])
  return {
    graceSeconds: grace === undefined ? undefined : Number(grace),
    propagation: propagation === undefined ? undefined : String(propagation),
    uid: uid === undefined ? undefined : String(uid),
    resourceVersion: resourceVersion === undefined ? undefined : String(resourceVersion),
    isDry: isDryRun(query) || (Array.isArray(body.dryRun) && body.dryRun.includes('All')),
  }
}

export const isDryRun = (query: URLSearchParams) => query.getAll('dryRun').includes('All')

export function checkPreconditions(resource: Resource, object: KubeObject, options: DeleteOptions): void {
  const { name, uid, resourceVersion } = object.metadata
  if (options.uid !== undefined && options.uid !== uid)
    throw preconditionFailed(resource, name, 'UID', options.uid, uid)
  if (options.resourceVersion !== undefined && options.resourceVersion !== resourceVersion)
    throw preconditionFailed(resource, name, 'ResourceVersion', options.resourceVersion, resourceVersion)
}

/** Gives the object as it is then, and whether it has gone at once. */
export function deleteObject(
  store: Store,
  resource: Resource,
  object: KubeObject,
  options: Pick<DeleteOptions, 'graceSeconds' | 'propagation'>,
  nowMs: number,
): { object: KubeObject; isGone: boolean } {
  const graceSeconds = resource.id === 'pods' ? graceOf(object, options.graceSeconds) : 0
  if (options.propagation === 'Orphan') orphan(store, object)
  const changed = store.change(resource.id, object, ({ metadata }) => {
    const isFirst = metadata.deletionTimestamp === undefined
    // Whoever asks again can only make it shorter.
    if (isFirst || graceSeconds < (metadata.deletionGracePeriodSeconds ?? 0)) {
      metadata.deletionTimestamp = rfc3339(nowMs + graceSeconds * 1000)
      metadata.deletionGracePeriodSeconds = graceSeconds
    }
    if (isFirst && options.propagation === 'Foreground' && store.dependentsOf(metadata.uid).length > 0)
      metadata.finalizers = [...(metadata.finalizers ?? []), 'foregroundDeletion']
  })
  const { namespace, name, uid } = object.metadata
  const isGone = store.get(resource.id, namespace, name)?.metadata.uid !== uid
  return { object: changed ?? object, isGone }
}

function graceOf(pod: KubeObject, asked: number | undefined): number {
  const spec = specOf(pod)
  const isOver = pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded'
  if (!spec.nodeName || isOver) return 0
  const grace = asked ?? spec.terminationGracePeriodSeconds
  return grace < 0 ? 1 : grace
}

function orphan(store: Store, { metadata: { uid } }: KubeObject): void {
  for (const { resource, object } of store.dependentsOf(uid))
    store.change(resource, object, ({ metadata }) => {
      metadata.ownerReferences = (metadata.ownerReferences ?? []).filter((owner) => owner.uid !== uid)
    })
}
