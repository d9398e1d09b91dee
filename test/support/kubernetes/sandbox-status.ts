import { type Condition, conditionOf, conditionsOf, type Json, type KubeObject, withCondition } from './objects.ts'
import { NAME_HASH } from './sandbox-children.ts'
import { isSuspended, nameHash, sandboxSpec } from './sandboxes.ts'

export type Seen = {
  pod: KubeObject | undefined
  hasService: boolean
  /** What has gone wrong. */
  error: string | undefined
  /** There is more than one. */
  podCount: number
}

/** The condition of a sandbox, as far as its pod tells. */
export function sandboxStatus(sandbox: KubeObject, seen: Seen, nowMs: number, isStale: boolean): Json {
  const { pod, hasService } = seen
  const { name, namespace } = sandbox.metadata
  const podIPs = (pod?.status?.podIPs as { ip: string }[] | undefined)?.map(({ ip }) => ip)
  const set = [
    // Up to v0.5.3 one that was woken kept the condition of its sleep.
    ...(isStale && !isSuspended(sandbox) ? [] : [suspended(sandbox, seen)]),
    ...finished(seen),
    ...scheduled(seen),
    ready(sandbox, seen),
  ].map((condition): Condition => ({ ...condition, observedGeneration: sandbox.metadata.generation ?? 1 }))
  const kept = conditionsOf(sandbox).filter(
    ({ type }) => !['Finished', 'PodScheduled'].includes(type) || set.some((one) => one.type === type),
  )
  return {
    ...(hasService && { service: name, serviceFQDN: `${name}.${namespace}.svc.cluster.local` }),
    conditions: set.reduce((all, next) => withCondition(all, next, nowMs), kept),
    ...(pod && { selector: `${NAME_HASH}=${nameHash(name)}` }),
    ...(podIPs && { podIPs }),
    ...(pod?.spec?.nodeName !== undefined && { nodeName: pod.spec.nodeName }),
  }
}

/** Nothing of what lived is left in it. */
export function expiredStatus(sandbox: KubeObject, nowMs: number): Json {
  const condition: Condition = {
    type: 'Ready',
    status: 'False',
    reason: 'SandboxExpired',
    message: 'Sandbox has expired',
    observedGeneration: sandbox.metadata.generation ?? 1,
  }
  const kept = conditionsOf(sandbox).filter(({ type }) => type !== 'PodScheduled')
  return { conditions: withCondition(kept, condition, nowMs) }
}

export const isMarkedExpired = (sandbox: KubeObject) => conditionOf(sandbox, 'Ready')?.reason === 'SandboxExpired'

function suspended(sandbox: KubeObject, { pod, error }: Seen): Condition {
  const type = 'Suspended'
  if (!isSuspended(sandbox))
    return { type, status: 'False', reason: 'NotSuspended', message: 'Sandbox is not suspended' }
  if (!pod && error !== undefined)
    return {
      type,
      status: 'Unknown',
      reason: 'PodStateUnknown',
      message: 'Pod state is unknown. Sandbox suspension cannot be confirmed',
    }
  return pod
    ? { type, status: 'False', reason: 'PodTerminating', message: 'Pod is terminating. Sandbox is suspending' }
    : { type, status: 'True', reason: 'PodTerminated', message: 'Pod has been terminated. Sandbox is suspended' }
}

const ENDS: Record<string, { reason: string; message: string }> = {
  Succeeded: { reason: 'PodSucceeded', message: 'Pod completed successfully' },
  Failed: { reason: 'PodFailed', message: 'Pod failed' },
}

function finished({ pod }: Seen): Condition[] {
  const end = ENDS[String(pod?.status?.phase)]
  return end ? [{ type: 'Finished', status: 'True', ...end }] : []
}

function scheduled({ pod }: Seen): Condition[] {
  if (!pod) return []
  const told = conditionOf(pod, 'PodScheduled')
  const type = 'PodScheduled'
  if (!told)
    return [
      {
        type,
        status: 'Unknown',
        reason: 'PodSchedulingUnknown',
        message: 'Pod has not reported a PodScheduled condition yet',
      },
    ]
  return [{ type, status: told.status, reason: told.reason ?? 'PodScheduled', message: told.message ?? '' }]
}

function ready(sandbox: KubeObject, { pod, hasService, error, podCount }: Seen): Condition {
  const type = 'Ready'
  if (podCount > 1) {
    const message = `multiple Pods (${podCount}) are controlled by this Sandbox; refusing to choose or create a Pod`
    return { type, status: 'False', reason: 'MultiplePods', message }
  }
  if (error !== undefined) return { type, status: 'False', reason: 'ReconcilerError', message: `Error seen: ${error}` }
  if (isSuspended(sandbox)) {
    const message = pod ? 'Sandbox is suspending' : 'Sandbox is suspended'
    return { type, status: 'False', reason: 'SandboxSuspended', message }
  }
  const end = ENDS[String(pod?.status?.phase)]
  if (end) return { type, status: 'False', ...end }
  const message = messageOf(pod)
  const needsService = sandboxSpec(sandbox).service === true
  const said = needsService ? `${message}; ${hasService ? 'Service Exists' : 'Service does not exist'}` : message
  return message === 'Pod is Ready' && (!needsService || hasService)
    ? { type, status: 'True', reason: 'DependenciesReady', message: said }
    : { type, status: 'False', reason: 'DependenciesNotReady', message: said }
}

/** Also of a pod that is about to go: it is ready for as long as it says so. */
function messageOf(pod: KubeObject | undefined): string {
  if (!pod) return 'Pod does not exist'
  if (pod.status?.phase !== 'Running') return `Pod exists with phase: ${String(pod.status?.phase)}`
  if (conditionOf(pod, 'Ready')?.status !== 'True') return 'Pod is Running but not Ready'
  return pod.status.podIPs === undefined ? 'Pod is Ready but has no podIPs yet' : 'Pod is Ready'
}
