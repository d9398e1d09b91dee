import type { Cause } from './api-error.ts'
import { isEqual, isObject, type Json, type KubeObject } from './objects.ts'
import { custom, type Resource } from './resources.ts'
import { invalidValue, listAt, notSupported, objectAt, required } from './validation.ts'

export const SANDBOXES = 'sandboxes.agents.x-k8s.io'
const GROUP = 'agents.x-k8s.io'
const STORED = 'v1beta1'

export type Blueprint = Json & {
  podTemplate: { metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> }; spec: Json }
  volumeClaimTemplates?: (Json & { metadata: { name: string; labels?: Record<string, string> }; spec: Json })[]
  service?: boolean
}
type SandboxSpec = Blueprint & {
  operatingMode: 'Running' | 'Suspended'
  shutdownTime?: string
  shutdownPolicy?: 'Delete' | 'Retain'
}

export const sandboxSpec = (sandbox: KubeObject) => sandbox.spec as SandboxSpec
export const isSuspended = (sandbox: KubeObject) => sandboxSpec(sandbox).operatingMode === 'Suspended'

export const BLUEPRINT_FIELDS = ['podTemplate', 'volumeClaimTemplates', 'service']
const FIELDS = [...BLUEPRINT_FIELDS, 'operatingMode', 'shutdownTime', 'shutdownPolicy']

/** Stored in one version, whichever ones are served. The older one has replicas, of which there may be one or none. */
export function sandboxesResource(versions: readonly string[]): Resource {
  return custom({
    group: GROUP,
    versions,
    storedVersion: STORED,
    plural: 'sandboxes',
    kind: 'Sandbox',
    subresources: versions.includes('v1alpha1') ? ['scale'] : [],
    rules: { prepare, validate, validateChange, toVersion, fromVersion },
  })
}

function prepare(sandbox: KubeObject): void {
  sandbox.spec = { operatingMode: 'Running', shutdownPolicy: 'Retain', ...sandbox.spec }
}

function validate({ spec = {} }: KubeObject): Cause[] {
  const causes = checkBlueprint(spec)
  const { operatingMode, shutdownPolicy, shutdownTime } = spec
  if (!['Running', 'Suspended'].includes(String(operatingMode)))
    causes.push(notSupported('spec.operatingMode', operatingMode, ['Running', 'Suspended']))
  if (!['Delete', 'Retain'].includes(String(shutdownPolicy)))
    causes.push(notSupported('spec.shutdownPolicy', shutdownPolicy, ['Delete', 'Retain']))
  if (shutdownTime !== undefined) causes.push(...checkTime('spec.shutdownTime', shutdownTime))
  return causes
}

/** Only its shape: what is wrong with the pod is found out when it is to be made. */
export function checkBlueprint({ podTemplate }: Json): Cause[] {
  if (podTemplate === undefined) return [required('spec.podTemplate')]
  const { spec } = objectAt(podTemplate)
  if (spec === undefined) return [required('spec.podTemplate.spec')]
  return listAt(objectAt(spec).containers).length > 0 ? [] : [required('spec.podTemplate.spec.containers')]
}

export function checkTime(field: string, time: unknown): Cause[] {
  const isTime = typeof time === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(time)
  return isTime ? [] : [invalidValue(field, time, `${field} in body must be of type date-time`)]
}

function validateChange(after: KubeObject, before: KubeObject): Cause[] {
  if (isEqual(after.spec?.volumeClaimTemplates, before.spec?.volumeClaimTemplates)) return []
  return [invalidValue('spec', 'object', 'volumeClaimTemplates is immutable')]
}

function toVersion(sandbox: KubeObject, version: string): KubeObject {
  if (version === STORED) return sandbox
  const { operatingMode, ...spec } = sandboxSpec(sandbox)
  const { nodeName, ...status } = sandbox.status ?? {}
  const replicas = operatingMode === 'Suspended' ? 0 : 1
  return {
    ...sandbox,
    apiVersion: `${GROUP}/${version}`,
    spec: { ...spec, replicas },
    ...(sandbox.status && { status: { ...status, replicas } }),
  }
}

/** What a version does not know is left out. */
function fromVersion(sandbox: KubeObject, version: string): KubeObject {
  const given: Json = isObject(sandbox.spec) ? { ...sandbox.spec } : {}
  if (version !== STORED) {
    delete given.operatingMode
    if (given.replicas !== undefined) given.operatingMode = given.replicas === 0 ? 'Suspended' : 'Running'
  }
  return { ...sandbox, apiVersion: `${GROUP}/${STORED}`, ...(sandbox.spec && { spec: known(given, FIELDS) }) }
}

export function known(spec: Json, fields: readonly string[]): Json {
  return Object.fromEntries(Object.entries(spec).filter(([key]) => fields.includes(key)))
}

/** By this a sandbox finds its pods, for names are too long for labels. */
export function nameHash(name: string): string {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash.toString(16).padStart(8, '0')
}
