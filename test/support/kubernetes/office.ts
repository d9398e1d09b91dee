import type { Api } from './api.ts'
import { deleteObject } from './deletion.ts'
import { type Draft, isEqual, type KubeObject } from './objects.ts'
import type { Resource } from './resources.ts'
import type { Store } from './store.ts'

/** Where a test can hold a controller up: right before it does this. */
export type ControllerStep =
  | 'create claim'
  | 'create pod'
  | 'delete pod'
  | 'annotate'
  | 'write status'
  | 'create sandbox'
  | 'delete sandbox'
  | 'adopt'
  | 'checkpoint'

/** What controllers have to work with. */
export class Office {
  readonly api: Api
  readonly store: Store
  readonly nowMs: () => number
  readonly reach: (step: ControllerStep) => Promise<void>
  readonly #resource: (id: string) => Resource

  constructor(given: {
    api: Api
    resource: (id: string) => Resource
    nowMs: () => number
    reach: (step: ControllerStep) => Promise<void>
  }) {
    this.api = given.api
    this.store = given.api.store
    this.nowMs = given.nowMs
    this.reach = given.reach
    this.#resource = given.resource
  }

  /** On behalf of an owner; undefined when that has gone meanwhile. */
  create(id: string, owner: KubeObject, body: Draft): KubeObject | undefined {
    if (!this.store.byUid(owner.metadata.uid)) return undefined
    const resource = this.#resource(id)
    const target = {
      resource,
      version: resource.storedVersion,
      namespace: owner.metadata.namespace,
      name: '',
      subresource: '',
    }
    const asking = { query: new URLSearchParams(), body, contentType: 'application/json', manager: 'controller' }
    return this.api.create(target, asking).object as KubeObject
  }

  /** As it is asked for by those who say nothing of how. */
  delete(id: string, object: KubeObject, propagation?: 'Foreground'): void {
    const now = this.store.byUid(object.metadata.uid)?.object
    if (now) deleteObject(this.store, this.#resource(id), now, { graceSeconds: undefined, propagation }, this.nowMs())
  }

  /** What was seen is written down of the generation that was looked at, though there may be another one by now. */
  async writeStatus(id: string, seen: KubeObject, make: (object: KubeObject) => KubeObject['status']): Promise<void> {
    const next = (now: KubeObject) => make({ ...seen, status: now.status ?? {} }) ?? {}
    const now = this.store.byUid(seen.metadata.uid)?.object
    if (!now || isEqual(now.status, next(now))) return
    await this.reach('write status')
    this.store.change(id, seen, (draft) => {
      draft.status = next(draft)
    })
  }

  /** Those of a kind that this one controls. */
  controlledBy(owner: KubeObject, id: string): KubeObject[] {
    const { uid } = owner.metadata
    const owned = this.store.dependentsOf(uid).filter(({ resource }) => resource === id)
    return owned
      .map(({ object }) => object)
      .filter(({ metadata }) => metadata.ownerReferences?.some((one) => one.uid === uid && one.controller === true))
  }
}
