import type { Node } from './node.ts'
import { type Condition, conditionsOf, type KubeObject, withCondition } from './objects.ts'

/** Finds a node for a pod, when there is one. Rejects when the pod goes before that. */
export async function schedule(node: Node, pod: KubeObject, signal: AbortSignal): Promise<void> {
  const { store, bell, nowMs } = node
  const tell = (condition: Condition, nodeName?: string) =>
    store.change('pods', pod, (draft) => {
      draft.status = { ...draft.status, conditions: withCondition(conditionsOf(draft), condition, nowMs()) }
      if (nodeName !== undefined) draft.spec = { nodeName, ...draft.spec }
    })
  // One that goes before its turn was never anywhere.
  await Promise.resolve()
  for (let message = whyNot(node, pod); message !== undefined; message = whyNot(node, pod)) {
    tell({ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message })
    await bell.rung(signal)
  }
  signal.throwIfAborted()
  tell({ type: 'PodScheduled', status: 'True' }, 'node-1')
}

function whyNot({ isSchedulable, volumes }: Node, pod: KubeObject): string | undefined {
  const none = '0/1 nodes are available'
  const claim = volumes.missingClaim(pod)
  if (claim !== undefined)
    return `${none}: persistentvolumeclaim "${claim}" not found. preemption: ${none}: 1 Preemption is not helpful for scheduling.`
  if (isSchedulable) return undefined
  return `${none}: 1 Insufficient memory. preemption: ${none}: 1 No preemption victims found for incoming pod.`
}
