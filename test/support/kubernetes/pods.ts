import type { Cause } from './api-error.ts'
import { isEqual, type Json, type KubeObject } from './objects.ts'
import { builtIn, type Resource } from './resources.ts'
import { forbiddenField, invalidValue, isDnsLabel, listAt, notSupported, objectAt, required } from './validation.ts'

export type EnvVar = { name: string; value?: string; valueFrom?: Json }
export type ContainerSpec = {
  name: string
  image: string
  command?: string[]
  args?: string[]
  env?: EnvVar[]
  workingDir?: string
  restartPolicy?: string
  resources?: { limits?: Record<string, string | number>; requests?: Record<string, string | number> }
  volumeMounts?: { name: string; mountPath: string; subPath?: string }[]
}
export type PodSpec = Json & {
  containers: ContainerSpec[]
  initContainers?: ContainerSpec[]
  volumes?: (Json & { name: string })[]
  restartPolicy: 'Always' | 'OnFailure' | 'Never'
  terminationGracePeriodSeconds: number
  activeDeadlineSeconds?: number
  nodeName?: string
}

export const specOf = (pod: KubeObject) => pod.spec as PodSpec

/** There they can be: native sidecars came with 1.29. */
export function podsResource(minor: number): Resource {
  return builtIn({
    plural: 'pods',
    kind: 'Pod',
    showsDeleted: true,
    subresources: ['log', 'exec', 'eviction'],
    rules: {
      prepare,
      validate: (pod) => checkSpec('spec', pod.spec ?? {}, minor),
      validateChange,
    },
  })
}

function prepare(pod: KubeObject): void {
  const spec = objectAt(pod.spec)
  pod.spec = {
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    dnsPolicy: 'ClusterFirst',
    schedulerName: 'default-scheduler',
    ...spec,
    containers: spec.containers,
  }
  // It is counted from one only since 1.33, and then for what may change in a spec.
  pod.status = { phase: 'Pending', qosClass: qosOf(spec) }
}

function qosOf(spec: Json): string {
  const all = listAt(spec.containers).map((container) => objectAt(objectAt(container).resources))
  if (all.every(({ limits, requests }) => isEmpty(limits) && isEmpty(requests))) return 'BestEffort'
  const isGuaranteed = all.every(({ limits, requests }) => {
    const { cpu, memory } = objectAt(limits)
    return cpu !== undefined && memory !== undefined && (isEmpty(requests) || isEqual(limits, requests))
  })
  return isGuaranteed ? 'Guaranteed' : 'Burstable'
}

const isEmpty = (value: unknown) => Object.keys(objectAt(value)).length === 0
const RESTART_POLICIES = ['Always', 'OnFailure', 'Never']

/** Also of the pods that others make from a template. */
function checkSpec(at: string, spec: Json, minor: number): Cause[] {
  const volumes = new Set(listAt(spec.volumes).map((volume) => objectAt(volume).name))
  const names = new Set<unknown>()
  const check = (field: string, container: Json): Cause[] => {
    const isDuplicate = names.has(container.name)
    names.add(container.name)
    const causes = checkContainer(field, container, volumes)
    return isDuplicate ? [...causes, duplicate(`${field}.name`, container.name)] : causes
  }
  const containers = listAt(spec.containers)
  const initial = listAt(spec.initContainers)
  const causes = containers.length === 0 ? [required(`${at}.containers`)] : []
  for (const [n, one] of containers.entries()) causes.push(...check(`${at}.containers[${n}]`, objectAt(one)))
  for (const [n, one] of initial.entries()) {
    const field = `${at}.initContainers[${n}]`
    causes.push(...check(field, objectAt(one)))
    const { restartPolicy } = objectAt(one)
    if (restartPolicy === undefined) continue
    if (minor < 29) causes.push(forbiddenField(`${field}.restartPolicy`, 'may not be set for init containers'))
    else if (restartPolicy !== 'Always') causes.push(notSupported(`${field}.restartPolicy`, restartPolicy, ['Always']))
  }
  const { restartPolicy } = spec
  if (restartPolicy !== undefined && !RESTART_POLICIES.includes(String(restartPolicy)))
    causes.push(notSupported(`${at}.restartPolicy`, restartPolicy, RESTART_POLICIES))
  return causes
}

function checkContainer(field: string, container: Json, volumes: Set<unknown>): Cause[] {
  const causes: Cause[] = []
  const { name, image, env, volumeMounts, command, args } = container
  if (name === undefined || name === '') causes.push(required(`${field}.name`))
  else if (!isDnsLabel(name))
    causes.push(
      invalidValue(
        `${field}.name`,
        name,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
      ),
    )
  if (typeof image !== 'string' || image === '') causes.push(required(`${field}.image`))
  for (const [key, list] of Object.entries({ command, args }))
    if (list !== undefined && !(Array.isArray(list) && list.every((one) => typeof one === 'string')))
      causes.push(invalidValue(`${field}.${key}`, list, 'must be a list of strings'))
  for (const [n, one] of listAt(env).entries()) {
    const { name, value } = objectAt(one)
    if (typeof name !== 'string' || name === '') causes.push(required(`${field}.env[${n}].name`))
    else if (name.includes('='))
      causes.push(
        invalidValue(`${field}.env[${n}].name`, name, "a valid environment variable name must not contain '='"),
      )
    if (value !== undefined && typeof value !== 'string')
      causes.push(invalidValue(`${field}.env[${n}].value`, value, 'must be a string'))
  }
  for (const [n, one] of listAt(volumeMounts).entries()) {
    const { name, mountPath } = objectAt(one)
    if (!volumes.has(name))
      causes.push({
        reason: 'FieldValueNotFound',
        message: `Not found: ${JSON.stringify(name)}`,
        field: `${field}.volumeMounts[${n}].name`,
      })
    if (typeof mountPath !== 'string' || mountPath === '')
      causes.push(required(`${field}.volumeMounts[${n}].mountPath`))
  }
  return causes
}

const duplicate = (field: string, value: unknown): Cause => ({
  reason: 'FieldValueDuplicate',
  message: `Duplicate value: ${JSON.stringify(value)}`,
  field,
})

function validateChange(after: KubeObject, before: KubeObject): Cause[] {
  if (isEqual(fixedOf(specOf(after)), fixedOf(specOf(before)))) return []
  return [
    forbiddenField(
      'spec',
      'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
    ),
  ]
}

/** All of a spec that stays as it was made. */
function fixedOf(spec: PodSpec): Json {
  const { containers, initContainers = [], activeDeadlineSeconds, tolerations, nodeName, ...rest } = spec
  const images = (all: ContainerSpec[]) => all.map(({ image, ...others }) => others)
  return { ...rest, containers: images(containers), initContainers: images(initContainers) }
}

const UNITS: Record<string, number> = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
}

/** Of a quantity such as `32Mi`; undefined where there is none. */
export function bytesOf(quantity: string | number | undefined): number | undefined {
  const [, number, unit = ''] = String(quantity ?? '').match(/^([\d.]+(?:e\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?$/) ?? []
  return number === undefined ? undefined : Number(number) * (UNITS[unit] ?? 1)
}
