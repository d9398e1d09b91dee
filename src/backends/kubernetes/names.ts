import { BackendError, type Owner } from '../backend.ts'
import { hash } from '../hash.ts'

/** Where the sandboxes of a fleet are: one namespace of one cluster. */
export type Home = {
  fleet: string
  namespace: string
  /**
   * Which namespace of which cluster that is, by its uid. Part of every ref, so that nobody says of another cluster's sandbox that there
   * is no such thing.
   */
  place: string
}

/** So much of a hash stands in every name: there are not many fleets, or clusters, to be told apart. */
export const PLACE_CHARS = 8

const WORD = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/
/** What a name may have for a life: a pod's is its host name, too, and no longer than 63 letters. */
const WORD_CHARS_MAX = 40

/** A key as part of a name: as it is, or, where that is not possible, something that no other key has. */
export function wordOf(key: string): string {
  const word = key.replaceAll('_', '-')
  return WORD.test(word) && word.length <= WORD_CHARS_MAX ? word : `x${hash(key, 31)}`
}

/** The same for the same life, so that a sandbox is made once however often it is asked for. */
export function nameOf({ fleet }: Home, { life }: Pick<Owner, 'life'>): string {
  return `sandman-${hash(fleet, PLACE_CHARS)}-${wordOf(life)}`
}

export function refOf({ place, namespace }: Home, name: string): string {
  return `${place}/${namespace}/${name}`
}

/** Whether somebody else's cluster, or another namespace, has named it. */
export function isElsewhere(home: Home, ref: string): boolean {
  const [name, namespace, place] = ref.split('/').reverse()
  return name === undefined || (namespace ?? home.namespace) !== home.namespace || (place ?? home.place) !== home.place
}

/** What Kubernetes takes for a name. Anything else would be a part of a path, and mean something else. */
const OBJECT_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/

/** The object's name. What is to be adopted may be named without its place, as `namespace/name` or `name`. */
export function nameIn(home: Home, ref: string): string {
  const name = ref.slice(ref.lastIndexOf('/') + 1)
  if (!OBJECT_NAME.test(name) || ref.split('/').length > 3)
    throw new BackendError('spec_invalid', `${JSON.stringify(ref)} cannot be the name of anything in Kubernetes`)
  if (isElsewhere(home, ref))
    throw new BackendError(
      'sandbox_unreachable',
      `${ref} is in another cluster or namespace than this worker's (${home.place}/${home.namespace}): all workers of a fleet have the same one.`,
    )
  return name
}
