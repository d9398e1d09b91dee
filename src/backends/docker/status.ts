import { type Agent, type AgentStatus, BackendError, type Call, EXIT_CODE_KILLED } from '../backend.ts'
import type { Container } from './containers.ts'
import { expired, findInstance, type Instance, isThere } from './instance.ts'
import { LABEL } from './labels.ts'
import { sleepingOf } from './look.ts'
import { heardOfOom } from './oom-events.ts'
import type { Site } from './site.ts'

/** The same for every agent of a sandbox; undefined while the incarnation that is meant is there, running or not. */
export function overOf(instance: Instance, incarnation: string): AgentStatus | undefined {
  const { ref, agent } = instance
  if (sleepingOf(instance)) return { is: 'asleep' }
  if (!agent) return { is: 'restarted', why: `the container of ${ref} is gone, and ${incarnation} with it` }
  if (agent.incarnation === incarnation) return undefined
  return { is: 'restarted', why: `${ref} runs as ${agent.incarnation}, and ${incarnation} was meant` }
}

export async function findMeant(site: Site, ref: string, call: Call): Promise<Instance> {
  const instance = await findInstance(site, ref, call)
  if (!isThere(instance)) throw expired(site, ref)
  return instance
}

/** Of the agent that a sandbox was made with: the container's own account of itself, and never the sidecar's. */
export function ownStatus(instance: Instance, { ref, incarnation }: Agent): AgentStatus {
  const over = overOf(instance, incarnation)
  if (over) return over
  const agent = instance.agent as Container
  if (agent.labels[LABEL.agent] === 'none') return { is: 'none' }
  switch (agent.state) {
    case 'running':
    case 'paused': // by a copy that is being made of it
      return { is: 'running' }
    case 'exited':
    case 'dead':
      return terminated(agent)
    default:
      throw new BackendError('sandbox_unreachable', `The container of ${ref} is ${agent.state}: ask again`)
  }
}

/**
 * Docker says of a container that something in it was killed for its memory, which may have been a child that its agent has survived.
 * Podman does not say it even if it was the agent.
 */
function terminated({ inspected }: Container): AgentStatus {
  const { ExitCode: exitCode, OOMKilled } = inspected.State
  const wasKilled = exitCode === EXIT_CODE_KILLED
  const isKnown = exitCode === 0 || wasKilled === OOMKilled
  return { is: 'terminated', exitCode, signal: null, oomKilled: isKnown ? wasKilled : undefined }
}

/** The same status; of one that was killed, and nobody knows for what, with what the engine's events tell besides. */
export async function heardOut(site: Site, { agent }: Instance, status: AgentStatus, call: Call): Promise<AgentStatus> {
  if (!agent || status.is !== 'terminated' || status.exitCode !== EXIT_CODE_KILLED || status.oomKilled) return status
  const endedAtSeconds = Math.floor(Date.parse(agent.inspected.State.FinishedAt) / 1000)
  return { ...status, oomKilled: (await heardOfOom(site, agent.id, endedAtSeconds, call)) || undefined }
}
