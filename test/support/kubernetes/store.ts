import { randomUUID } from 'node:crypto'
import { isEqual, type KubeObject } from './objects.ts'

export type Change = {
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** By its plural name and its group, as `sandboxes.agents.x-k8s.io`. */
  resource: string
  object: KubeObject
  before: KubeObject | undefined
  version: number
}

/** The keys in their order: ten thousand are not sorted anew for every list. */
type Table = { objects: Map<string, KubeObject>; keys: string[] }
const HISTORY_MAX = 60_000

const keyOf = (namespace: string | undefined, name: string) => `${namespace ?? ''}/${name}`

/**
 * All objects, and how they came to be so. Objects are never changed, only replaced: whoever has one has it as it was. There is one
 * counter for all of them, and every change takes the next number.
 */
export class Store {
  readonly #tables = new Map<string, Table>()
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #uids = new Map<string, { resource: string; key: string }>()
  readonly #dependents = new Map<string, Set<string>>()
  #history: Change[] = []
  #version = 1
  #oldest = 0

  get version(): number {
    return this.#version
  }

  /** Nothing at or before this version can be watched from any more. */
  get oldest(): number {
    return this.#oldest
  }

  get(resource: string, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#tables.get(resource)?.objects.get(keyOf(namespace, name))
  }

  /** By the name of the namespace, and then by their own. */
  list(resource: string, namespace?: string): KubeObject[] {
    const { objects, keys } = this.#table(resource)
    const first = namespace === undefined ? 0 : placeOf(keys, `${namespace}/`)
    // The character behind a slash is the first that cannot be in the same namespace.
    const last = namespace === undefined ? keys.length : placeOf(keys, `${namespace}0`)
    return keys.slice(first, last).flatMap((key) => objects.get(key) ?? [])
  }

  byUid(uid: string): { resource: string; object: KubeObject } | undefined {
    const found = this.#uids.get(uid)
    const object = found && this.#tables.get(found.resource)?.objects.get(found.key)
    return object && { resource: found.resource, object }
  }

  /** Those that name this one as an owner. */
  dependentsOf(uid: string): { resource: string; object: KubeObject }[] {
    return [...(this.#dependents.get(uid) ?? [])].flatMap((dependent) => this.byUid(dependent) ?? [])
  }

  add(resource: string, object: KubeObject): KubeObject {
    const { uid = randomUUID() } = object.metadata
    return this.#put('ADDED', resource, { ...object, metadata: { ...object.metadata, uid } }, undefined)
  }

  /**
   * Changes the object as it is now. Nothing happens when nothing was changed, or it is not there, or is another one by now. One that
   * only its finalizers kept, or its grace, goes with the last of them.
   */
  change(resource: string, of: KubeObject, edit: (draft: KubeObject) => undefined): KubeObject | undefined {
    const before = this.#same(resource, of)
    if (!before) return undefined
    const draft = structuredClone(before)
    edit(draft)
    return this.replace(resource, draft)
  }

  /** The same, where somebody has it already as it shall be. */
  replace(resource: string, after: KubeObject): KubeObject | undefined {
    const before = this.#same(resource, after)
    if (!before || isEqual(before, after)) return before
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = after.metadata
    const isDone = deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && finalizers.length === 0
    return this.#put(isDone ? 'DELETED' : 'MODIFIED', resource, after, before)
  }

  /** What has happened to objects of this kind since. Undefined when that is forgotten. */
  since(resource: string, version: number): Change[] | undefined {
    if (version < this.#oldest) return undefined
    const first = this.#history.findLastIndex((change) => change.version <= version) + 1
    return this.#history.slice(first).filter((change) => change.resource === resource)
  }

  compact(version = this.#version): void {
    this.#oldest = Math.max(this.#oldest, version)
    this.#history = this.#history.filter((change) => change.version > version)
  }

  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #same(resource: string, { metadata: { namespace, name, uid } }: KubeObject): KubeObject | undefined {
    const found = this.get(resource, namespace, name)
    return found?.metadata.uid === uid ? found : undefined
  }

  #put(type: Change['type'], resource: string, given: KubeObject, before: KubeObject | undefined): KubeObject {
    const version = ++this.#version
    const object = { ...given, metadata: { ...given.metadata, resourceVersion: String(version) } }
    const key = keyOf(object.metadata.namespace, object.metadata.name)
    const { objects, keys } = this.#table(resource)
    if (type === 'ADDED') keys.splice(placeOf(keys, key), 0, key)
    if (type === 'DELETED') keys.splice(placeOf(keys, key), 1)
    if (type === 'DELETED') objects.delete(key)
    else objects.set(key, object)
    this.#index(type, resource, key, object, before)
    const change: Change = { type, resource, object, before, version }
    this.#history.push(change)
    if (this.#history.length > HISTORY_MAX) this.compact(this.#history[HISTORY_MAX / 2]?.version)
    for (const listener of [...this.#listeners]) listener(change)
    return object
  }

  #table(resource: string): Table {
    const table = this.#tables.get(resource) ?? { objects: new Map(), keys: [] }
    this.#tables.set(resource, table)
    return table
  }

  #index(
    type: Change['type'],
    resource: string,
    key: string,
    { metadata }: KubeObject,
    before: KubeObject | undefined,
  ): void {
    const { uid } = metadata
    for (const owner of before?.metadata.ownerReferences ?? []) this.#dependents.get(owner.uid)?.delete(uid)
    if (type === 'DELETED') {
      this.#uids.delete(uid)
      return
    }
    this.#uids.set(uid, { resource, key })
    for (const owner of metadata.ownerReferences ?? []) {
      const known = this.#dependents.get(owner.uid) ?? new Set()
      this.#dependents.set(owner.uid, known.add(uid))
    }
  }
}

/** Of the first key that is not before this one. */
function placeOf(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((keys[middle] ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}
