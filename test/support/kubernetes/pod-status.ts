import { type Condition, conditionsOf, type Json, type KubeObject, rfc3339, withCondition } from './objects.ts'
import { specOf } from './pods.ts'
import type { Slot } from './slot.ts'

/** What became of the whole pod, whatever its containers say. */
export type PodVerdict = { phase: string; reason?: string; message?: string; dropStatuses?: boolean }

type PodFacts = {
  slots: readonly Slot[]
  isInitialized: boolean
  isOver: boolean
  verdict: PodVerdict | undefined
  conditions: readonly Condition[]
  nowMs: number
}

/** The status of a pod, as its kubelet sees it. */
export function podStatus(pod: KubeObject, facts: PodFacts): Json {
  const { slots, verdict, nowMs } = facts
  const { qosClass, startTime = rfc3339(nowMs), podIP } = pod.status ?? {}
  const phase = verdict?.phase ?? phaseOf(pod, facts)
  // Nobody is promised the order of the spec.
  const statuses = (roles: readonly Slot['role'][]) =>
    slots
      .filter(({ role }) => roles.includes(role))
      .map((slot) => slot.status())
      .reverse()
  const initContainerStatuses = statuses(['init', 'sidecar'])
  const hasIp = podIP !== undefined || slots.some(({ container }) => container !== undefined)
  return {
    phase,
    conditions: [...facts.conditions, ...readiness(phase, facts)].reduce(
      (all, next) => withCondition(all, next, nowMs),
      conditionsOf(pod),
    ),
    ...(verdict?.reason !== undefined && { reason: verdict.reason }),
    ...(verdict?.message !== undefined && { message: verdict.message }),
    hostIP: '127.0.0.1',
    ...(hasIp && { podIP: '127.0.0.1', podIPs: [{ ip: '127.0.0.1' }] }),
    startTime,
    ...(!verdict?.dropStatuses && {
      ...(initContainerStatuses.length > 0 && { initContainerStatuses }),
      containerStatuses: statuses(['regular']),
    }),
    qosClass,
  }
}

function phaseOf(pod: KubeObject, { slots, isInitialized, isOver }: PodFacts): string {
  const { restartPolicy } = specOf(pod)
  const failedInit = slots.some(({ role, terminated }) => role === 'init' && (terminated?.exitCode ?? 0) !== 0)
  if (failedInit && restartPolicy === 'Never') return isOver ? 'Failed' : 'Pending'
  const regular = slots.filter(({ role }) => role === 'regular')
  const isUnstarted = ({ state, lastState }: Slot) => 'waiting' in state && lastState === undefined
  if (!isInitialized || regular.some(isUnstarted)) return isOver ? 'Failed' : 'Pending'
  if (!isOver) return 'Running'
  return regular.every(({ terminated }) => terminated?.exitCode === 0) ? 'Succeeded' : 'Failed'
}

function readiness(phase: string, { slots, isInitialized }: PodFacts): Condition[] {
  const wanted = slots.filter(({ role }) => role !== 'init')
  const unready = wanted.filter(({ isRunning }) => !isRunning).map(({ spec }) => spec.name)
  const initialized: Condition = isInitialized
    ? { type: 'Initialized', status: 'True', ...(phase === 'Succeeded' && { reason: 'PodCompleted' }) }
    : { type: 'Initialized', status: 'False', reason: 'ContainersNotInitialized' }
  const why: Pick<Condition, 'reason' | 'message'> =
    phase === 'Succeeded'
      ? { reason: 'PodCompleted' }
      : phase === 'Failed'
        ? { reason: 'PodFailed' }
        : { reason: 'ContainersNotReady', message: `containers with unready status: [${unready.join(' ')}]` }
  const isReady = unready.length === 0 && isInitialized && phase === 'Running'
  const ready = (type: string): Condition => (isReady ? { type, status: 'True' } : { type, status: 'False', ...why })
  return [initialized, ready('Ready'), ready('ContainersReady')]
}
