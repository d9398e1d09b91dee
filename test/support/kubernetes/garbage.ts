import { deleteObject } from './deletion.ts'
import type { KubeObject } from './objects.ts'
import type { Resource } from './resources.ts'
import type { Change, Store } from './store.ts'

/** What belongs to something that is gone goes too. */
export class GarbageCollector {
  readonly #store: Store
  readonly #resources: readonly Resource[]
  readonly #nowMs: () => number

  constructor(store: Store, resources: readonly Resource[], nowMs: () => number) {
    this.#store = store
    this.#resources = resources
    this.#nowMs = nowMs
    store.onChange((change) => this.#notice(change))
  }

  #notice({ type, resource, object }: Change): void {
    const { uid, finalizers = [], ownerReferences = [] } = object.metadata
    if (type === 'DELETED') {
      // Later, as a controller would: whoever deletes one sees what it owned for a moment.
      if (this.#store.dependentsOf(uid).length > 0) setImmediate(() => this.#sweep(uid))
      for (const owner of ownerReferences) setImmediate(() => this.#release(owner.uid))
    } else if (finalizers.includes('foregroundDeletion')) {
      setImmediate(() => this.#sweep(uid))
      setImmediate(() => this.#release(uid))
    } else if (type === 'ADDED' && ownerReferences.length > 0) {
      setImmediate(() => this.#collect(resource, object))
    }
  }

  #sweep(uid: string): void {
    for (const { resource, object } of this.#store.dependentsOf(uid)) this.#collect(resource, object, uid)
  }

  /** Only when none of its owners is left. */
  #collect(resource: string, object: KubeObject, going?: string): void {
    const owners = object.metadata.ownerReferences ?? []
    const isOwned = owners.some(({ uid }) => uid !== going && this.#store.byUid(uid) !== undefined)
    const kind = this.#resources.find(({ id }) => id === resource)
    if (isOwned || !kind || object.metadata.deletionTimestamp !== undefined) return
    deleteObject(this.#store, kind, object, { graceSeconds: undefined, propagation: 'Background' }, this.#nowMs())
  }

  /** An owner that waited for this one waits no more. */
  #release(uid: string): void {
    const owner = this.#store.byUid(uid)
    if (!owner?.object.metadata.finalizers?.includes('foregroundDeletion')) return
    if (this.#store.dependentsOf(uid).length > 0) return
    this.#store.change(owner.resource, owner.object, ({ metadata }) => {
      metadata.finalizers = (metadata.finalizers ?? []).filter((one) => one !== 'foregroundDeletion')
    })
  }
}
