import { type Agent, type AgentStatus, BackendError, EXIT_CODE_KILLED } from '../backend.ts'
import { ANNOTATION } from './labels.ts'
import { type Ended, incarnationOf, type Pod } from './pod.ts'
import { stateOf, whyOf } from './pod-state.ts'

/** The same for every agent of a pod; undefined while the incarnation that is meant is there, running or not. */
export function overOf(pod: Pod, { ref, incarnation }: Agent): AgentStatus | undefined {
  const now = incarnationOf(pod)
  return now === incarnation ? undefined : { is: 'restarted', why: `${ref} is ${now}, and ${incarnation} was meant` }
}

/** Of the agent that a sandbox was made with: its container's own account, whatever runs beside it. */
export function ownStatus(pod: Pod, agent: Agent): AgentStatus {
  const over = overOf(pod, agent)
  if (over) return over
  if (pod.annotations[ANNOTATION.agent] === 'none') return { is: 'none' }
  const state = stateOf(pod)
  switch (state.is) {
    case 'ended':
    case 'restarting':
      return terminated(state.how)
    case 'evicted':
      return nobodyKnows()
    case 'running':
      return { is: 'running' }
    case 'terminating':
      if (pod.agent.running) return { is: 'running' }
      break
    default:
  }
  throw new BackendError('sandbox_unreachable', `Nobody can say how the agent of ${agent.ref} is: ${state.why}`)
}

/** Of one out of a shell: it has ended with its container, and nobody has seen how; undefined while there is somebody to ask. */
export function shellStatus(pod: Pod, agent: Agent): AgentStatus | undefined {
  const over = overOf(pod, agent)
  if (over) return over
  const state = stateOf(pod)
  if (state.is === 'ended' || state.is === 'evicted' || state.is === 'restarting') return nobodyKnows()
  if (pod.agent.running && state.is !== 'node lost') return undefined
  throw new BackendError('sandbox_unreachable', `Nobody can say how an agent in ${agent.ref} is: ${whyOf(state)}`)
}

function nobodyKnows(): AgentStatus {
  return { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
}

/** Some runtimes only say of a container that was killed that it has failed. */
const OOM = 'OOMKilled'

/**
 * A node says `OOMKilled` also of a container whose agent has survived it, or has ended by itself since; and runtimes with a kernel of
 * their own never say it, so that of one that was killed nobody can say that it was not for its memory.
 */
function terminated({ exitCode, reason }: Ended): AgentStatus {
  const oomKilled = exitCode === EXIT_CODE_KILLED ? reason === OOM || undefined : false
  return { is: 'terminated', exitCode, signal: null, oomKilled }
}
