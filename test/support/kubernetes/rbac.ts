import { ApiError, qualified } from './api-error.ts'
import type { Resource } from './resources.ts'

/** As in a Role. `*` is everything. */
export type Rule = {
  apiGroups: readonly string[]
  /** Subresources as `pods/log`. */
  resources: readonly string[]
  verbs: readonly string[]
  resourceNames?: readonly string[]
}

type Wanted = {
  verb: string
  resource: Pick<Resource, 'group' | 'plural' | 'kind'>
  subresource: string
  namespace: string | undefined
  name: string
}

const USER = 'system:serviceaccount:agents:sandman'

/** Throws where no rule allows it. */
export function authorize(rules: readonly Rule[], wanted: Wanted): void {
  const { verb, resource, subresource, name } = wanted
  const asked = subresource === '' ? resource.plural : `${resource.plural}/${subresource}`
  const has = (list: readonly string[], one: string) => list.includes('*') || list.includes(one)
  const isAllowed = rules.some(
    ({ apiGroups, resources, verbs, resourceNames }) =>
      has(apiGroups, resource.group) &&
      has(resources, asked) &&
      has(verbs, verb) &&
      (resourceNames === undefined || (name !== '' && resourceNames.includes(name))),
  )
  if (!isAllowed) throw forbidden(wanted)
}

function forbidden({ verb, resource, subresource, namespace, name }: Wanted): ApiError {
  const asked = subresource === '' ? resource.plural : `${resource.plural}/${subresource}`
  const which = name === '' ? '' : ` "${name}"`
  const where = namespace === undefined ? 'at the cluster scope' : `in the namespace "${namespace}"`
  return new ApiError(
    403,
    'Forbidden',
    `${qualified(resource)}${which} is forbidden: User "${USER}" cannot ${verb} resource "${asked}" in API group "${resource.group}" ${where}`,
    {
      ...(name !== '' && { name }),
      ...(resource.group !== '' && { group: resource.group }),
      kind: resource.plural,
    },
  )
}
