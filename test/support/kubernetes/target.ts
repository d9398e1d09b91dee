import { badRequest } from './api-error.ts'
import { type Draft, isObject, type KubeObject } from './objects.ts'
import { apiVersionOf, type Resource } from './resources.ts'

/** What a request is about. */
export type Target = {
  resource: Resource
  version: string
  namespace: string | undefined
  name: string
  subresource: string
}

/** In the version that was asked for. */
export function shown({ resource, version }: Pick<Target, 'resource' | 'version'>, object: KubeObject): KubeObject {
  return resource.rules.toVersion?.(object, version) ?? object
}

export function stored({ resource, version }: Target, object: KubeObject): KubeObject {
  return resource.rules.fromVersion?.(object, version) ?? object
}

export function objectOf({ resource, version }: Target, body: unknown): Draft {
  if (!isObject(body))
    throw badRequest("the object provided is unrecognized (must be of type JSON): couldn't get version/kind")
  const { kind = resource.kind, apiVersion = apiVersionOf(resource, version) } = body
  if (kind !== resource.kind || apiVersion !== apiVersionOf(resource, version))
    throw badRequest(
      `${String(kind)} in version "${String(apiVersion)}" cannot be handled as a ${resource.kind}: the API version in the data (${String(apiVersion)}) does not match the expected API version (${apiVersionOf(resource, version)})`,
    )
  return body as Draft
}
