import type { Call } from '../backend.ts'
import { isAbsent, isConflict, Unreadable } from '../kubernetes/errors.ts'
import type { Labels } from '../kubernetes/labels.ts'
import type { WireMeta } from '../kubernetes/pod.ts'
import type { Site } from './site.ts'

/** On a Sandbox, besides what everything carries. */
export const SANDBOX_ANNOTATION = {
  /** What it sleeps on, written down with the wish that it sleeps: its last pod, or a snapshot of that. Gone when it is woken. */
  sleepsOn: 'sandman.sleeps-on',
  /** Which volumes it had then, by their uids: for one that is deleted its controller makes another, of the same name, and empty. */
  volumes: 'sandman.volumes',
} as const

/** The controller's: what the pod is called, where that is not called like the Sandbox. */
const POD_NAME = 'agents.x-k8s.io/pod-name'
/** Of a pod that is to begin as a snapshot. */
export const SNAPSHOT_NAME = 'podsnapshot.gke.io/ps-name'

type WireSandbox = {
  kind?: string
  metadata?: WireMeta
  spec?: {
    operatingMode?: string
    replicas?: number
    shutdownTime?: string
    podTemplate?: { metadata?: { annotations?: Labels } }
    volumeClaimTemplates?: { metadata?: { name?: string } }[]
  }
  status?: {
    conditions?: { type: string; status: string; reason?: string; message?: string; observedGeneration?: number }[]
  }
}

export type Condition = { isTrue: boolean; reason: string; message: string; isCurrent: boolean }

/** The resource, as far as anything depends on it. */
export type Sandbox = {
  name: string
  uid: string
  version: string
  generation: number
  labels: Labels
  annotations: Labels
  isDeleted: boolean
  /** What was asked of the controller; whether it is so is another question. */
  isToSleep: boolean
  podName: string
  /** The claims of its volumes. */
  volumes: string[]
  /** The snapshot that its pod is to begin as. */
  restores: string | undefined
  /** Those of an earlier generation tell of what was asked before. */
  conditions: Record<string, Condition>
  /** Its controller has seen what it is now. */
  isObserved: boolean
}

export const sandboxesPath = ({ cluster, served }: Site) =>
  `/apis/agents.x-k8s.io/${served.dialect.version}/namespaces/${cluster.home.namespace}/sandboxes`

export async function findSandbox(site: Site, name: string, call: Call): Promise<Sandbox | undefined> {
  const path = `${sandboxesPath(site)}/${name}`
  const found = await site.cluster.api.json<WireSandbox>({ path }, call).catch((error: unknown) => {
    if (isAbsent(error, name)) return undefined
    throw error
  })
  return found && sandboxOf(site, found, `GET ${path}`)
}

export function sandboxOf({ served }: Site, found: WireSandbox, asked: string): Sandbox {
  const { kind, metadata = {}, spec = {}, status = {} } = found
  const { name, uid, resourceVersion, generation = 0, labels = {}, annotations = {} } = metadata
  if (kind !== 'Sandbox' || !name || !uid || !resourceVersion)
    throw new Unreadable(asked, JSON.stringify(found).slice(0, 400))
  const conditions = status.conditions ?? []
  const isCurrent = ({ observedGeneration = generation }) => observedGeneration === generation
  return {
    name,
    uid,
    version: resourceVersion,
    generation,
    labels,
    annotations,
    isDeleted: metadata.deletionTimestamp !== undefined,
    isToSleep: served.dialect.isAsleep(spec),
    podName: annotations[POD_NAME] || name,
    volumes: (spec.volumeClaimTemplates ?? []).map((each) => `${each.metadata?.name}-${name}`),
    restores: spec.podTemplate?.metadata?.annotations?.[SNAPSHOT_NAME],
    conditions: Object.fromEntries(
      conditions.map((each) => [
        each.type,
        {
          isTrue: each.status === 'True',
          reason: each.reason ?? '',
          message: each.message ?? '',
          isCurrent: isCurrent(each),
        },
      ]),
    ),
    isObserved: conditions.some(isCurrent),
  }
}

/**
 * Changes it as it was seen: undefined when it has been changed by somebody else since, which includes its controller. Then it has to be
 * looked at again.
 */
export async function changeSandbox(
  site: Site,
  { name, uid, version }: Sandbox,
  { metadata = {}, spec }: { metadata?: object; spec?: object },
  call: Call,
): Promise<Sandbox | undefined> {
  const path = `${sandboxesPath(site)}/${name}`
  const body = { metadata: { ...metadata, uid, resourceVersion: version }, ...(spec && { spec }) }
  const asked = { method: 'PATCH', path, body, as: 'merge-patch' } as const
  const changed = await site.cluster.api.json<WireSandbox>(asked, call).catch((error: unknown) => {
    if (isConflict(error)) return undefined
    throw error
  })
  return changed && sandboxOf(site, changed, `PATCH ${path}`)
}
