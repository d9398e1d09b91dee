import { ApiError, type Cause } from './api-error.ts'
import { isEqual, isObject, type Json, type KubeObject } from './objects.ts'

/** Who has set which fields of an object. A list is one field here, also where the server knows its items apart. */
type Owners = Map<string, Set<string>>

/** What an owner of fields means when it applies an object: those that it leaves out are its no more. */
export class FieldOwners {
  readonly #owners = new Map<string, Owners>()

  forget(uid: string): void {
    this.#owners.delete(uid)
  }

  /** Whatever was changed without being applied belongs to who has changed it. */
  note(after: KubeObject, before: KubeObject | undefined, manager: string): void {
    const owners = this.#of(after)
    const was = new Map(before ? leaves(owned(before)) : [])
    const is = new Map(leaves(owned(after)))
    for (const field of was.keys()) if (!is.has(field)) owners.delete(field)
    for (const [field, value] of is) if (!isEqual(was.get(field), value)) owners.set(field, new Set([manager]))
  }

  /** What becomes of the object. Throws where somebody else has said otherwise of a field. */
  apply(current: KubeObject, applied: Json, manager: string, isForced: boolean): KubeObject {
    const owners = this.#of(current)
    const is = new Map(leaves(owned(current)))
    const wanted = new Map(leaves(owned(applied)))
    const disputed = [...wanted].filter(([field, value]) => {
      const others = [...(owners.get(field) ?? [])].filter((other) => other !== manager)
      return others.length > 0 && !isEqual(is.get(field), value)
    })
    if (disputed.length > 0 && !isForced) throw fieldConflict(disputed.map(([field]) => [field, owners]))
    const next = structuredClone(current) as Json
    for (const [field, by] of [...owners]) {
      if (!by.has(manager) || wanted.has(field)) continue
      by.delete(manager)
      if (by.size > 0) continue
      owners.delete(field)
      place(next, field, undefined)
    }
    for (const [field, value] of wanted) {
      const isShared = isEqual(is.get(field), value)
      owners.set(field, isShared ? (owners.get(field) ?? new Set<string>()).add(manager) : new Set([manager]))
      place(next, field, value)
    }
    return next as KubeObject
  }

  #of({ metadata }: KubeObject): Owners {
    const owners: Owners = this.#owners.get(metadata.uid) ?? new Map()
    this.#owners.set(metadata.uid, owners)
    return owners
  }
}

function fieldConflict(disputed: [field: string, owners: Owners][]): ApiError {
  const causes: Cause[] = disputed.map(([field, owners]) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${[...(owners.get(field) ?? [])].map((by) => `"${by}"`).join(', ')}`,
    field: `.${field.replaceAll('\0', '.')}`,
  }))
  const said = causes.map(({ message, field }) => `${message}: ${field}`).join(', ')
  const many = causes.length === 1 ? '1 conflict' : `${causes.length} conflicts`
  return new ApiError(409, 'Conflict', `Apply failed with ${many}: ${said}`, { causes })
}

const OWN_METADATA = ['labels', 'annotations', 'finalizers', 'ownerReferences']

/** Names, versions and states are nobody's. */
function owned(object: Json): Json {
  const { apiVersion, kind, status, metadata, ...rest } = object
  const kept = Object.entries(isObject(metadata) ? metadata : {}).filter(([key]) => OWN_METADATA.includes(key))
  return { metadata: Object.fromEntries(kept), ...rest }
}

function* leaves(value: Json, above: string[] = []): Generator<[field: string, value: unknown]> {
  for (const [key, below] of Object.entries(value)) {
    const path = [...above, key]
    if (isObject(below) && Object.keys(below).length > 0) yield* leaves(below, path)
    else if (!isObject(below) || above.length > 0) yield [path.join('\0'), below]
  }
}

function place(object: Json, field: string, value: unknown): void {
  const path = field.split('\0')
  const last = path.pop() ?? ''
  let at = object
  for (const key of path) {
    if (!isObject(at[key])) at[key] = {}
    at = at[key] as Json
  }
  if (value === undefined) delete at[last]
  else at[last] = structuredClone(value)
}
