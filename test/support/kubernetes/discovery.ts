import type { Json } from './objects.ts'
import { apiVersionOf, type Resource } from './resources.ts'

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const SUBRESOURCE_VERBS: Record<string, string[]> = {
  status: ['get', 'patch', 'update'],
  scale: ['get', 'patch', 'update'],
  log: ['get'],
  exec: ['create', 'get'],
  eviction: ['create'],
}

/** What a server says of itself. Undefined for any other path. */
export function discover(pathname: string, version: string, resources: readonly Resource[]): Json | undefined {
  const path = pathname.replace(/\/$/, '')
  if (path === '/version') return versionInfo(version)
  if (path === '/api')
    return {
      kind: 'APIVersions',
      versions: ['v1'],
      serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: '10.0.0.1:443' }],
    }
  if (path === '/api/v1') return resourceList('', 'v1', resources)
  const groups = [...new Set(resources.map(({ group }) => group).filter((group) => group !== ''))]
  if (path === '/apis')
    return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map((group) => groupOf(group, resources)) }
  const [, group = '', served] = path.match(/^\/apis\/([^/]+)(?:\/([^/]+))?$/) ?? []
  if (!groups.includes(group)) return undefined
  if (served === undefined) return { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group, resources) }
  const isServed = resources.some((one) => one.group === group && one.versions.includes(served))
  return isServed ? resourceList(group, served, resources) : undefined
}

function versionInfo(version: string): Json {
  const [, major, minor] = version.match(/^v(\d+)\.(\d+)/) ?? []
  return {
    major,
    minor,
    gitVersion: /^v\d+\.\d+$/.test(version) ? `${version}.0` : version,
    gitCommit: '0000000000000000000000000000000000000000',
    gitTreeState: 'clean',
    buildDate: '2025-01-01T00:00:00Z',
    goVersion: 'go1.24.0',
    compiler: 'gc',
    platform: 'linux/amd64',
  }
}

function groupOf(group: string, resources: readonly Resource[]): Json {
  const served = [...new Set(resources.filter((one) => one.group === group).flatMap(({ versions }) => versions))]
  const versions = served.map((version) => ({ groupVersion: `${group}/${version}`, version }))
  return { name: group, versions, preferredVersion: versions[0] }
}

function resourceList(group: string, version: string, resources: readonly Resource[]): Json {
  const served = resources.filter((one) => one.group === group && one.versions.includes(version))
  const listed = served.flatMap(({ plural, kind, isNamespaced, subresources }) => [
    { name: plural, singularName: kind.toLowerCase(), namespaced: isNamespaced, kind, verbs: VERBS },
    ...subresources.map((subresource) => ({
      name: `${plural}/${subresource}`,
      singularName: '',
      namespaced: isNamespaced,
      kind,
      verbs: SUBRESOURCE_VERBS[subresource] ?? ['get'],
    })),
  ])
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: apiVersionOf({ group, plural: '', kind: '' }, version),
    resources: listed,
  }
}
