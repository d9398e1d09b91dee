import { type Cause, type Named, qualified } from './api-error.ts'
import type { KubeObject } from './objects.ts'
import { PATCH_TYPES } from './patches.ts'

/** What is particular to a kind of object. All of it is about objects in the version that is stored. */
type Rules = {
  /** What the server fills in. */
  prepare?: (object: KubeObject) => void
  validate?: (object: KubeObject) => Cause[]
  validateChange?: (after: KubeObject, before: KubeObject) => Cause[]
  /** Between the version that is stored and others that are served. */
  toVersion?: (object: KubeObject, version: string) => KubeObject
  fromVersion?: (object: KubeObject, version: string) => KubeObject
}

export type Resource = Named & {
  /** By this it is stored. */
  id: string
  /** Those that are served, the preferred one first. */
  versions: readonly string[]
  storedVersion: string
  isNamespaced: boolean
  isBuiltIn: boolean
  hasStatus: boolean
  subresources: readonly string[]
  /** Those that answer a deletion with the object itself. */
  showsDeleted: boolean
  patchTypes: readonly string[]
  rules: Rules
}

type Told = Partial<Omit<Resource, 'id'>> & { plural: string; kind: string }

export function builtIn(told: Told): Resource {
  return complete({
    group: '',
    versions: ['v1'],
    isBuiltIn: true,
    showsDeleted: false,
    patchTypes: Object.values(PATCH_TYPES),
    ...told,
  })
}

export function custom(told: Told & { group: string; versions: readonly string[] }): Resource {
  return complete({
    isBuiltIn: false,
    showsDeleted: false,
    patchTypes: [PATCH_TYPES.json, PATCH_TYPES.merge, PATCH_TYPES.apply],
    ...told,
  })
}

function complete(
  told: Told & Pick<Resource, 'group' | 'versions' | 'isBuiltIn' | 'showsDeleted' | 'patchTypes'>,
): Resource {
  const { hasStatus = true, subresources = [] } = told
  return {
    isNamespaced: true,
    rules: {},
    storedVersion: told.versions[0] ?? 'v1',
    ...told,
    id: qualified(told),
    hasStatus,
    subresources: hasStatus ? ['status', ...subresources] : subresources,
  }
}

export const apiVersionOf = ({ group }: Named, version: string) => (group === '' ? version : `${group}/${version}`)
