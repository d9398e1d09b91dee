import type { Resource } from './resources.ts'
import type { Target } from './target.ts'

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'

/** What a path means, whether or not there is such a thing. */
export type Path = {
  group: string
  version: string
  plural: string
  namespace: string | undefined
  name: string
  subresource: string
}

/** Undefined for what is about no objects: versions, discovery, and whatever else is below the root. */
export function parsePath(pathname: string): Path | undefined {
  const steps = pathname.split('/').slice(1).map(decodeURIComponent)
  const isCore = steps[0] === 'api'
  if (!isCore && steps[0] !== 'apis') return undefined
  const [group = '', version = '', ...rest] = isCore ? ['', ...steps.slice(1)] : steps.slice(1)
  if (rest.length === 0 || rest[0] === '') return undefined
  const isInside = rest[0] === 'namespaces' && rest.length > 2 && !['status', 'finalize'].includes(rest[2] ?? '')
  const [plural = '', name = '', subresource = '', ...tooMany] = isInside ? rest.slice(2) : rest
  if (tooMany.length > 0) return undefined
  return { group, version, plural, namespace: isInside ? rest[1] : undefined, name, subresource }
}

export function verbOf(method: string, { name }: Path, query: URLSearchParams): Verb | undefined {
  const isWatch = ['true', '1'].includes(query.get('watch') ?? '')
  switch (method) {
    case 'GET':
      return isWatch ? 'watch' : name === '' ? 'list' : 'get'
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'PATCH':
      return 'patch'
    case 'DELETE':
      return name === '' ? 'deletecollection' : 'delete'
    default:
      return undefined
  }
}

/** Undefined where this is not served. */
export function targetOf(resources: readonly Resource[], path: Path): Target | undefined {
  const { group, version, plural, namespace, name, subresource } = path
  const resource = resources.find((one) => one.group === group && one.plural === plural)
  if (!resource?.versions.includes(version)) return undefined
  if (subresource !== '' && !resource.subresources.includes(subresource)) return undefined
  if (!resource.isNamespaced && namespace !== undefined) return undefined
  if (resource.isNamespaced && namespace === undefined && name !== '') return undefined
  return { resource, version, namespace, name, subresource }
}
