import {
  alreadyExists,
  badRequest,
  conflict,
  invalid,
  notFound,
  preconditionFailed,
  quotaExceeded,
  unsupportedMediaType,
} from './api-error.ts'
import { checkPreconditions, deleteObject, deleteOptions, isDryRun } from './deletion.ts'
import { FieldOwners } from './field-owners.ts'
import { newObject } from './new-object.ts'
import { isEqual, isObject, type Json, type KubeObject, type Metadata } from './objects.ts'
import { jsonPatch, mergePatch, PATCH_TYPES, strategicMerge } from './patches.ts'
import { apiVersionOf, type Resource } from './resources.ts'
import { selectorOf } from './selectors.ts'
import type { Store } from './store.ts'
import { objectOf, shown, stored, type Target } from './target.ts'
import { checkMetadata, forbiddenField } from './validation.ts'

export type Asking = { query: URLSearchParams; body: unknown; contentType: string; manager: string }
export type Answer = { status: number; object: KubeObject | Json }

/** What the server does with objects of whatever kind. */
export class Api {
  readonly store: Store
  readonly #nowMs: () => number
  readonly #owners = new FieldOwners()
  /** Of these no more can be made, and why. */
  readonly exceededQuotas = new Map<string, string>()

  constructor(store: Store, nowMs: () => number) {
    this.store = store
    this.#nowMs = nowMs
    store.onChange(({ type, object }) => type === 'DELETED' && this.#owners.forget(object.metadata.uid))
  }

  find({ resource, namespace, name }: Target): KubeObject {
    const found = this.store.get(resource.id, namespace, name)
    if (!found) throw notFound(resource, name)
    return found
  }

  get(target: Target): Answer {
    return { status: 200, object: shown(target, this.find(target)) }
  }

  create(target: Target, { query, body, manager }: Asking): Answer {
    const object = newObject(this.store, target, objectOf(target, body), this.#nowMs())
    this.#check(target.resource, object)
    const { name, namespace } = object.metadata
    const known = this.store.get(target.resource.id, namespace, name)
    const quota = this.exceededQuotas.get(target.resource.id)
    if (quota !== undefined) throw quotaExceeded(target.resource, name, quota)
    if (known) throw alreadyExists(target.resource, name, known.metadata.deletionTimestamp !== undefined)
    if (isDryRun(query)) return { status: 201, object: shown(target, object) }
    const added = this.store.add(target.resource.id, object)
    this.#owners.note(added, undefined, manager)
    return { status: 201, object: shown(target, added) }
  }

  update(target: Target, { query, body, manager }: Asking): Answer {
    const current = this.find(target)
    const next = objectOf(target, body) as KubeObject
    const written = this.#write(target, current, stored(target, next), isDryRun(query))
    this.#owners.note(written, current, manager)
    return { status: 200, object: shown(target, written) }
  }

  patch(target: Target, asking: Asking): Answer {
    const { resource, name } = target
    const { contentType, body, query, manager } = asking
    const type = contentType.split(';')[0]?.trim() ?? ''
    if (!resource.patchTypes.includes(type)) throw unsupportedMediaType(resource.patchTypes)
    if (type === PATCH_TYPES.apply) return this.#apply(target, asking)
    const current = this.store.get(resource.id, target.namespace, name)
    if (!current) throw notFound(resource, name)
    const before = shown(target, current) as Json
    const patched =
      type === PATCH_TYPES.json
        ? jsonPatch(before, body)
        : type === PATCH_TYPES.merge
          ? mergePatch(before, body)
          : strategicMerge(before, body)
    const written = this.#write(target, current, stored(target, patched as KubeObject), isDryRun(query))
    this.#owners.note(written, current, manager)
    return { status: 200, object: shown(target, written) }
  }

  delete(target: Target, { query, body }: Asking): Answer {
    const { resource, name } = target
    const options = deleteOptions(resource, name, query, isObject(body) ? body : {})
    const current = this.find(target)
    checkPreconditions(resource, current, options)
    if (options.isDry) return this.#deleted(target, current, true)
    const { object, isGone } = deleteObject(this.store, resource, current, options, this.#nowMs())
    return this.#deleted(target, object, isGone)
  }

  deleteCollection(target: Target, asking: Asking): Answer {
    const isSelected = selectorOf(asking.query) ?? (() => true)
    const items = this.store.list(target.resource.id, target.namespace).filter(isSelected)
    const { resource, version } = target
    for (const { metadata } of items) this.delete({ ...target, name: metadata.name }, asking)
    const object = {
      kind: `${resource.kind}List`,
      apiVersion: apiVersionOf(resource, version),
      metadata: { resourceVersion: String(this.store.version) },
      items,
    }
    return { status: 200, object }
  }

  #deleted(target: Target, object: KubeObject, isGone: boolean): Answer {
    if (target.resource.showsDeleted || !isGone) return { status: 200, object: shown(target, object) }
    const { group, plural } = target.resource
    const { name, uid } = object.metadata
    const details = { name, ...(group !== '' && { group }), kind: plural, uid }
    return {
      status: 200,
      object: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details },
    }
  }

  #check(resource: Resource, object: KubeObject): void {
    const causes = [...checkMetadata(object), ...(resource.rules.validate?.(object) ?? [])]
    if (causes.length > 0) throw invalid(resource, object.metadata.name, causes)
  }

  #apply(target: Target, { query, body }: Asking): Answer {
    const { resource, name, namespace } = target
    const manager = query.get('fieldManager')
    if (!manager) {
      const message = 'Required value: is required for apply patch'
      throw invalid({ group: 'meta.k8s.io', plural: 'patchoptions', kind: 'PatchOptions' }, '', [
        { reason: 'FieldValueRequired', message, field: 'fieldManager' },
      ])
    }
    const applied = objectOf(target, body)
    const current = this.store.get(resource.id, namespace, name)
    if (!current) {
      const object = newObject(
        this.store,
        target,
        { ...applied, metadata: { ...applied.metadata, name } },
        this.#nowMs(),
      )
      this.#check(resource, object)
      if (isDryRun(query)) return { status: 201, object: shown(target, object) }
      const added = this.store.add(resource.id, object)
      this.#owners.apply(added, applied, manager, true)
      return { status: 201, object: shown(target, added) }
    }
    const { resourceVersion, uid } = applied.metadata ?? {}
    const isForced = query.get('force') === 'true'
    const next = this.#owners.apply(current, stored(target, applied as KubeObject), manager, isForced)
    next.metadata = { ...next.metadata, ...(resourceVersion && { resourceVersion }), ...(uid && { uid }) }
    return { status: 200, object: shown(target, this.#write(target, current, next, isDryRun(query))) }
  }

  /** Of what is asked for, only what may be changed, and only if it was asked of the object as it is. */
  #write({ resource, subresource, name }: Target, current: KubeObject, next: KubeObject, isDry: boolean): KubeObject {
    const { metadata: is } = current
    const asked: Partial<Metadata> = isObject(next.metadata) ? next.metadata : {}
    if (asked.resourceVersion && asked.resourceVersion !== is.resourceVersion) throw conflict(resource, name)
    if (asked.uid && asked.uid !== is.uid) throw preconditionFailed(resource, name, 'UID', asked.uid, is.uid)
    if (asked.name && asked.name !== is.name)
      throw badRequest(`the name of the object (${asked.name}) does not match the name on the URL (${name})`)
    if (subresource === 'status') return this.#commit(resource, { ...current, status: next.status ?? {} }, isDry)
    const after = { ...next, metadata: { ...is, ...changeable(asked) } } as KubeObject
    if (resource.hasStatus && current.status) after.status = current.status
    else if (resource.hasStatus) delete after.status
    const added = (after.metadata.finalizers ?? []).filter((one) => !is.finalizers?.includes(one))
    if (is.deletionTimestamp !== undefined && added.length > 0) {
      const why = `no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`
      throw invalid(resource, name, [forbiddenField('metadata.finalizers', why)])
    }
    if (!isEqual(after.spec, current.spec)) after.metadata.generation = (is.generation ?? 1) + 1
    this.#check(resource, after)
    const causes = resource.rules.validateChange?.(after, current) ?? []
    if (causes.length > 0) throw invalid(resource, name, causes)
    return this.#commit(resource, after, isDry)
  }

  #commit(resource: Resource, after: KubeObject, isDry: boolean): KubeObject {
    if (isDry) return after
    return this.store.replace(resource.id, after) ?? after
  }
}

/** Nothing else of it is for a client to say. */
function changeable({ labels, annotations, finalizers, ownerReferences }: Partial<Metadata>): Partial<Metadata> {
  // What is left out is removed.
  return { labels, annotations, finalizers, ownerReferences } as Partial<Metadata>
}
