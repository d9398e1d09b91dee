import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node'
import { Unreadable } from './errors.ts'
import { ANNOTATION, type Labels } from './labels.ts'

/** As it comes over the wire: what the SDK takes for moments are still texts. */
export type WirePod = Omit<V1Pod, 'metadata'> & { metadata?: WireMeta }
export type WireMeta = {
  name?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Labels
  annotations?: Labels
  ownerReferences?: { kind?: string; name?: string; uid?: string; controller?: boolean }[]
}

/** The container in which the agent runs, in every pod that Sandman makes; and the one beside it. */
export const AGENT_CONTAINER = 'agent'
export const SIDECAR_CONTAINER = 'tool-server'

/** How a container ended, by its own account. */
export type Ended = { exitCode: number; reason: string; message: string }

/** All that is needed to know of a pod, and no more: ten thousand of them are kept in memory. */
export type Pod = {
  name: string
  uid: string
  version: string
  labels: Labels
  annotations: Labels
  /** The uid of what keeps it there; undefined where nothing does. */
  owner: string | undefined
  isDeleted: boolean
  deletedAt: string | undefined
  node: string | undefined
  address: string | undefined
  phase: string
  reason: string
  message: string
  restarts: 'never' | 'on failure' | 'always'
  /** Conditions by type. */
  conditions: Record<string, { status: string; reason: string; message: string }>
  /** The agent's own container; what runs beside it says nothing. */
  agent: {
    name: string
    restartCount: number
    isReady: boolean
    /** None of them before the node has said anything about it. */
    running: boolean
    waiting: { reason: string; message: string } | undefined
    terminated: Ended | undefined
    /** How it ended before it was started again, or is to be. */
    before: Ended | undefined
  }
}

/** Conditions that something depends on. */
const CONDITIONS = ['PodScheduled', 'ContainersReady', 'Ready', 'PodRestored', 'DisruptionTarget']
/** Of those that Sandman has made, and of what is adopted, nothing else has to be remembered. */
const ANNOTATIONS: readonly string[] = Object.values(ANNOTATION)

export function podOf({ metadata, spec, status }: WirePod, asked = 'a pod'): Pod {
  const { name, uid, resourceVersion } = metadata ?? {}
  if (!metadata || !name || !uid || !resourceVersion)
    throw new Unreadable(asked, JSON.stringify({ metadata }) ?? 'nothing')
  const agentName = agentContainerOf(metadata, spec?.containers?.map((each) => each.name) ?? [])
  // By name: their order is not that of the spec.
  const agent = status?.containerStatuses?.find((each) => each.name === agentName)
  return {
    name,
    uid,
    version: resourceVersion,
    labels: metadata.labels ?? {},
    annotations: Object.fromEntries(
      Object.entries(metadata.annotations ?? {}).filter(([each]) => ANNOTATIONS.includes(each)),
    ),
    owner: ownerOf(metadata)?.uid,
    isDeleted: metadata.deletionTimestamp !== undefined,
    deletedAt: metadata.deletionTimestamp,
    node: spec?.nodeName,
    address: status?.podIP,
    phase: status?.phase ?? 'Pending',
    reason: status?.reason ?? '',
    message: status?.message ?? '',
    restarts: spec?.restartPolicy === 'Never' ? 'never' : spec?.restartPolicy === 'OnFailure' ? 'on failure' : 'always',
    conditions: Object.fromEntries(
      (status?.conditions ?? [])
        .filter(({ type }) => CONDITIONS.includes(type))
        .map(({ type, status, reason = '', message = '' }) => [type, { status, reason, message }]),
    ),
    agent: { name: agentName, ...containerOf(agent) },
  }
}

/** What has made an object, and keeps it as it is to be. */
export function ownerOf({ ownerReferences = [] }: WireMeta) {
  return ownerReferences.find(({ controller }) => controller)
}

/** What somebody else has made may call it otherwise: the one that tools take by default, or else the first. */
function agentContainerOf({ annotations }: WireMeta, names: string[]): string {
  const byDefault = annotations?.['kubectl.kubernetes.io/default-container']
  return [AGENT_CONTAINER, byDefault].find((name) => name && names.includes(name)) ?? names[0] ?? AGENT_CONTAINER
}

function containerOf(status: V1ContainerStatus | undefined): Omit<Pod['agent'], 'name'> {
  const { state, lastState, restartCount = 0, ready = false } = status ?? {}
  return {
    restartCount,
    isReady: ready,
    running: state?.running !== undefined,
    waiting: state?.waiting && { reason: state.waiting.reason ?? '', message: state.waiting.message ?? '' },
    terminated: endedOf(state?.terminated),
    before: endedOf(lastState?.terminated),
  }
}

function endedOf(terminated: { exitCode: number; reason?: string; message?: string } | undefined): Ended | undefined {
  return (
    terminated && { exitCode: terminated.exitCode, reason: terminated.reason ?? '', message: terminated.message ?? '' }
  )
}

/** One life of a pod's agent. A pod is never started again under its uid; but its containers may be, in one that was adopted. */
export function incarnationOf({ uid, agent }: Pod): string {
  return agent.restartCount === 0 ? uid : `${uid}.${agent.restartCount}`
}
