import type { Ended, Pod } from './pod.ts'

/** What a pod is, as far as its agent is concerned. */
export type PodState =
  /** Its own container says so, and how. */
  | { is: 'ended'; how: Ended; why: string }
  /** It has ended, and nobody can say how its agent did: evicted, or past what it may take, or gone with its node. */
  | { is: 'evicted'; why: string }
  /** Its container has ended, and is started again by the node. */
  | { is: 'restarting'; how: Ended; why: string }
  /** Nothing was heard of its node for some time: whatever else is said of it is old. */
  | { is: 'node lost'; why: string }
  /** Somebody has deleted it, and it has not ended yet. */
  | { is: 'terminating'; why: string }
  | { is: 'running' }
  /** It will not begin as it is: its image cannot be had, or its configuration is wrong. */
  | { is: 'refused'; reason: string; why: string }
  | { is: 'starting'; why: string }
  /** No node has been found for it. */
  | { is: 'unscheduled'; why: string }

type Rule = {
  /** As the page about this backend says it. */
  when: string
  is: PodState['is']
  read(pod: Pod): PodState | undefined
}

/** What a node says that has lost a container: no account of its end, although it looks like one. */
const NOBODY_KNOWS = 'ContainerStatusUnknown'
const REFUSALS = [
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'RegistryUnavailable',
  'SignatureValidationFailed',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
]

/**
 * The first that applies. What the agent's own container says of its end comes before what is said of the pod: the phase of a
 * pod stays `Running` as long as anything in it runs (incident C), and one that is evicted may have ended well before that.
 */
export const POD_RULES: readonly Rule[] = [
  {
    when: "the agent's container is `terminated`, and knows how; *restarting* if it is started again",
    is: 'ended',
    read(pod) {
      const how = pod.agent.terminated
      if (!how || how.reason === NOBODY_KNOWS) return undefined
      return isStartedAgain(pod, how)
        ? { is: 'restarting', how, why: `its agent ${ending(how)}, and is started again` }
        : { is: 'ended', how, why: `its agent ${ending(how)}` }
    },
  },
  {
    when: 'the pod has ended (`Failed`, `Succeeded`), or its container is `terminated`, for good, and nobody knows how',
    is: 'evicted',
    read(pod) {
      const { phase, reason, message, agent, conditions } = pod
      const isDead = agent.terminated && !isStartedAgain(pod, agent.terminated)
      if (!isDead && !hasEnded(pod)) return undefined
      const { DisruptionTarget } = conditions
      const word = reason || DisruptionTarget?.reason || agent.terminated?.reason || phase
      const more = message || DisruptionTarget?.message || agent.terminated?.message
      return { is: 'evicted', why: `its pod has ended: ${word}${more ? ` (${more})` : ''}` }
    },
  },
  {
    when: 'its node is not heard of: phase `Unknown`, reason `NodeLost`, or not ready although all of its containers are',
    is: 'node lost',
    read(pod) {
      if (!isNodeLost(pod)) return undefined
      const why = `its node${pod.node ? ` ${pod.node}` : ''} does not answer`
      return { is: 'node lost', why: pod.isDeleted ? `${why}, and it was to be deleted` : why }
    },
  },
  {
    when: 'it has a `deletionTimestamp`',
    is: 'terminating',
    read: ({ isDeleted, deletedAt }) =>
      isDeleted ? { is: 'terminating', why: `it is being deleted, by ${deletedAt}` } : undefined,
  },
  {
    when: "the agent's container is `running`",
    is: 'running',
    read: ({ agent }) => (agent.running ? { is: 'running' } : undefined),
  },
  {
    when: 'it waits, after it has ended before',
    is: 'restarting',
    read: ({ agent }) =>
      agent.waiting && agent.before
        ? { is: 'restarting', how: agent.before, why: `its agent ${ending(agent.before)}, and is started again` }
        : undefined,
  },
  {
    when: 'it waits for something that does not come by itself: an image, a configuration',
    is: 'refused',
    read({ agent: { waiting } }) {
      if (!waiting || !REFUSALS.includes(waiting.reason)) return undefined
      const why = `its container does not start: ${waiting.reason}${waiting.message ? ` (${waiting.message})` : ''}`
      return { is: 'refused', reason: waiting.reason, why }
    },
  },
  {
    when: 'it has a node',
    is: 'starting',
    read: ({ node, agent }) =>
      node ? { is: 'starting', why: `it starts on ${node}: ${agent.waiting?.reason || 'Pending'}` } : undefined,
  },
  {
    when: 'anything else',
    is: 'unscheduled',
    read({ conditions }) {
      const { reason = 'Pending', message = '' } = conditions.PodScheduled ?? {}
      return { is: 'unscheduled', why: `no node was found for it: ${reason}${message ? ` (${message})` : ''}` }
    },
  },
]

export function stateOf(pod: Pod): PodState {
  for (const rule of POD_RULES) {
    const state = rule.read(pod)
    if (state) return state
  }
  throw new Error('The last rule applies to every pod')
}

/** In words, for whoever is told that it is not as it should be. */
export function whyOf({ is, why = is }: { is: string; why?: string }): string {
  return why
}

function hasEnded({ phase }: Pod): boolean {
  return phase === 'Failed' || phase === 'Succeeded'
}

/** Whether its pod goes on, and starts it again, as it was made to. */
function isStartedAgain(pod: Pod, { exitCode }: Ended): boolean {
  if (hasEnded(pod) || pod.isDeleted) return false
  return pod.restarts === 'always' || (pod.restarts === 'on failure' && exitCode !== 0)
}

/** What others have to say before a pod is ready, by the reason that is given when they have not. */
const GATES = 'ReadinessGatesNotReady'

/** A node says of the pod and of its containers at once. When only the pod is said not to be ready, somebody else has said that. */
function isNodeLost({ phase, reason, conditions, agent }: Pod): boolean {
  const { Ready, ContainersReady } = conditions
  if (phase === 'Unknown' || reason === 'NodeLost' || Ready?.status === 'Unknown') return true
  const isContradicted = Ready?.status === 'False' && Ready.reason !== GATES && ContainersReady?.status === 'True'
  return agent.running && agent.isReady && isContradicted
}

function ending({ exitCode, reason, message }: Ended): string {
  return `has ended with exit code ${exitCode}${reason ? `: ${reason}` : ''}${message ? ` (${message})` : ''}`
}
