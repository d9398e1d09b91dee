import type { KubeObject } from './objects.ts'

/** An object is never changed, so it is written down once, however often it is listed and watched. */
const bare = new WeakMap<KubeObject, string>()

/** As it stands in a list of built-in objects: without its kind. */
export function bareJson(object: KubeObject): string {
  let json = bare.get(object)
  if (json === undefined) {
    const { kind, apiVersion, ...rest } = object
    json = JSON.stringify(rest)
    bare.set(object, json)
  }
  return json
}

export function fullJson(object: KubeObject): string {
  const { kind, apiVersion } = object
  return `{"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(apiVersion)},${bareJson(object).slice(1)}`
}
