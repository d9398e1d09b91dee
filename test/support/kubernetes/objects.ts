/** Whatever the API carries: nothing here trusts its shape. */
export type Json = { [key: string]: unknown }

export type OwnerReference = {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export type Metadata = {
  name: string
  generateName?: string
  namespace?: string
  uid: string
  resourceVersion: string
  generation?: number
  creationTimestamp: string
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
}

export type KubeObject = { apiVersion: string; kind: string; metadata: Metadata; spec?: Json; status?: Json } & Json

/** What somebody asks to be made. */
export type Draft = { apiVersion?: string; kind?: string; metadata?: Partial<Metadata>; spec?: Json } & Json

export type Condition = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason?: string
  message?: string
  observedGeneration?: number
  lastTransitionTime?: string
}

/** Times of objects have no fractions. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** One of each type, and the time of its last change is kept where nothing has changed. */
export function withCondition(all: readonly Condition[], next: Condition, nowMs: number): Condition[] {
  const before = all.find(({ type }) => type === next.type)
  const lastTransitionTime =
    before?.status === next.status && before.lastTransitionTime ? before.lastTransitionTime : rfc3339(nowMs)
  const set = { ...next, lastTransitionTime }
  return before ? all.map((one) => (one === before ? set : one)) : [...all, set]
}

export function conditionsOf(object: KubeObject): Condition[] {
  return (object.status?.conditions as Condition[] | undefined) ?? []
}

export function conditionOf(object: KubeObject, type: string): Condition | undefined {
  return conditionsOf(object).find((one) => one.type === type)
}

export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true)
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** By content; the order of keys means nothing. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, n) => isEqual(one, b[n]))
  if (!isObject(a) || !isObject(b)) return false
  const keys = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...keys].every((key) => isEqual(a[key], b[key]))
}
