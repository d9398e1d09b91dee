import { badRequest, invalid, notFound } from './api-error.ts'
import { type Draft, type KubeObject, type Metadata, rfc3339 } from './objects.ts'
import { apiVersionOf } from './resources.ts'
import type { Store } from './store.ts'
import { stored, type Target } from './target.ts'

const SUFFIX = 'bcdfghjklmnpqrstvwxz2456789'

/** As it would be stored, if nothing were wrong with it. */
export function newObject(store: Store, target: Target, body: Draft, nowMs: number): KubeObject {
  const { resource, version } = target
  const { generateName, ...given } = body.metadata ?? {}
  const name = given.name || (generateName ? `${generateName}${suffix()}` : '')
  if (name === '') {
    const message = 'Required value: name or generateName is required'
    throw invalid(resource, '', [{ reason: 'FieldValueRequired', message, field: 'metadata.name' }])
  }
  if (given.namespace && given.namespace !== target.namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  if (resource.isNamespaced && !store.get('namespaces', undefined, target.namespace ?? ''))
    throw notFound({ group: '', plural: 'namespaces', kind: 'Namespace' }, target.namespace ?? '')
  const { labels, annotations, finalizers, ownerReferences } = given
  const metadata: Metadata = {
    name,
    ...(generateName && { generateName }),
    ...(target.namespace !== undefined && { namespace: target.namespace }),
    uid: crypto.randomUUID(),
    resourceVersion: '',
    generation: 1,
    creationTimestamp: rfc3339(nowMs),
    ...(labels && { labels }),
    ...(annotations && { annotations }),
    ...(finalizers && { finalizers }),
    ...(ownerReferences && { ownerReferences }),
  }
  const { status, ...rest } = body
  const object = stored(target, {
    ...rest,
    apiVersion: apiVersionOf(resource, version),
    kind: resource.kind,
    metadata,
    ...(!resource.hasStatus && status !== undefined && { status }),
  } as KubeObject)
  resource.rules.prepare?.(object)
  return object
}

function suffix(): string {
  return Array.from({ length: 5 }, () => SUFFIX[Math.floor(Math.random() * SUFFIX.length)]).join('')
}
