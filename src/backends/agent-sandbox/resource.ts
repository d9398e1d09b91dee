import type { Call } from '../backend.ts'
import { Unreadable } from '../kubernetes/errors.ts'
import type { Labels } from '../kubernetes/labels.ts'
import { changeObject, findObject } from '../kubernetes/objects.ts'
import { ownerOf, type WireMeta } from '../kubernetes/pod.ts'
import type { Dialect } from './served.ts'
import type { Site } from './site.ts'

/** On a Sandbox, besides what everything carries: what a worker that has died has known of it. */
export const MARK = {
  /** What it sleeps on, written down with the wish that it sleeps: its last pod, or a snapshot of that. Gone when it is woken. */
  sleepsOn: 'sandman.sleeps-on',
  /** What it was woken from last. A pod that ends before anybody has seen it awake has used nothing up. */
  wokenFrom: 'sandman.woken-from',
  /** The snapshot that its pod has to say it was made from. Gone when it has. */
  restores: 'sandman.restores',
  /** Which volumes it has, by their uids: for one that is deleted its controller makes another, of the same name, and empty. */
  volumes: 'sandman.volumes',
  /** A pod that was restored, and the name under which its agents are kept. */
  root: 'sandman.root',
  /** The pod in which its agent was started, where that is not the pod's own process. */
  agentIn: 'sandman.agent-in',
} as const

/** The controller's: what the pod is called, where that is not called like the Sandbox. */
const POD_NAME = 'agents.x-k8s.io/pod-name'
/** Of a pod that is to begin as a snapshot. */
export const SNAPSHOT_NAME = 'podsnapshot.gke.io/ps-name'

type WireCondition = {
  type: string
  status: string
  reason?: string
  message?: string
  observedGeneration?: number
  lastTransitionTime?: string
}
type WireSandbox = {
  kind?: string
  metadata?: WireMeta
  spec?: {
    operatingMode?: string
    replicas?: number
    podTemplate?: { metadata?: { annotations?: Labels }; spec?: { volumes?: object[] } }
    volumeClaimTemplates?: { metadata?: { name?: string } }[]
  }
  status?: { conditions?: WireCondition[] }
}

type Condition = {
  isTrue: boolean
  reason: string
  message: string
  /** Those of an earlier generation tell of what was asked before. */
  isCurrent: boolean
  sinceMs: number
}

/** The resource, as far as anything depends on it. */
export type Sandbox = {
  name: string
  uid: string
  version: string
  generation: number
  labels: Labels
  annotations: Labels
  /** The claim that has it, if one has. */
  claim: string | undefined
  isDeleted: boolean
  /** What was asked of the controller; whether it is so is another question. */
  isToSleep: boolean
  podName: string
  /** The claims of its volumes. */
  volumes: string[]
  /** It has no volume that outlives its pod: when that is gone, so is all that it wrote. */
  isFleeting: boolean
  /** The snapshot that its next pod is to begin as. */
  template: string | undefined
  conditions: Record<string, Condition>
  /** Its controller has seen what it is now. */
  isObserved: boolean
}

export const sandboxesPath = ({ cluster, served }: Site) =>
  `/apis/agents.x-k8s.io/${served.dialect.version}/namespaces/${cluster.home.namespace}/sandboxes`

export async function findSandbox(site: Site, name: string, call: Call): Promise<Sandbox | undefined> {
  const path = sandboxesPath(site)
  const found = await findObject<WireSandbox>(site.cluster.api, { kind: 'Sandbox', path, name }, call)
  return found && sandboxOf(site, found, `GET ${path}/${name}`)
}

export function sandboxOf({ served }: Site, found: WireSandbox, asked: string): Sandbox {
  const { kind, metadata = {}, spec = {}, status = {} } = found
  const { name, uid, resourceVersion, generation = 0, labels = {}, annotations = {} } = metadata
  if (kind !== 'Sandbox' || !name || !uid || !resourceVersion) throw new Unreadable(asked, JSON.stringify(found))
  const owner = ownerOf(metadata)
  const conditions = (status.conditions ?? []).map(
    (each) => [each.type, conditionOf(each, generation, served.dialect)] as const,
  )
  return {
    name,
    uid,
    version: resourceVersion,
    generation,
    labels,
    annotations,
    claim: owner?.kind === 'SandboxClaim' ? owner.name : undefined,
    isDeleted: metadata.deletionTimestamp !== undefined,
    isToSleep: served.dialect.isAsleep(spec),
    podName: annotations[POD_NAME] || name,
    volumes: (spec.volumeClaimTemplates ?? []).map((each) => `${each.metadata?.name}-${name}`),
    isFleeting: isFleeting(spec),
    template: spec.podTemplate?.metadata?.annotations?.[SNAPSHOT_NAME],
    conditions: Object.fromEntries(conditions),
    isObserved: conditions.some(([, { isCurrent }]) => isCurrent),
  }
}

/** What a pod brings with it, or is only given to read. */
const WITHIN_A_POD = ['emptyDir', 'configMap', 'secret', 'downwardAPI', 'projected', 'image']

/** One that somebody else has made, or a pool, may have no volume, or one that was there before it. */
function isFleeting({ volumeClaimTemplates = [], podTemplate }: NonNullable<WireSandbox['spec']>): boolean {
  const { volumes = [] } = podTemplate?.spec ?? {}
  const isKept = (volume: object) => Object.keys(volume).some((key) => key !== 'name' && !WITHIN_A_POD.includes(key))
  return volumeClaimTemplates.length === 0 && !volumes.some(isKept)
}

/** Only in the older version of the resource may a condition leave out which generation it is of. */
function conditionOf(condition: WireCondition, generation: number, { version }: Dialect): Condition {
  const { status, reason = '', message = '', lastTransitionTime = '' } = condition
  const { observedGeneration = version === 'v1alpha1' ? generation : undefined } = condition
  return {
    isTrue: status === 'True',
    reason,
    message,
    isCurrent: observedGeneration === generation,
    sinceMs: Date.parse(lastTransitionTime),
  }
}

/** Changes it as it was seen: undefined when somebody else, or its controller, has changed it since. */
export async function changeSandbox(
  site: Site,
  sandbox: Sandbox,
  change: { metadata?: object; spec?: object },
  call: Call,
): Promise<Sandbox | undefined> {
  const path = sandboxesPath(site)
  const changed = await changeObject<WireSandbox>(site.cluster.api, path, sandbox, change, call)
  return changed && sandboxOf(site, changed, `PATCH ${path}/${sandbox.name}`)
}
