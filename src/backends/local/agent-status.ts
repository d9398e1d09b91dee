import { isStillThere } from '../../process-identity.ts'
import { type Agent, type AgentStatus, BackendError, type Call } from '../backend.ts'
import { partOf } from '../shell/parts.ts'
import {
  type AgentEnd,
  type AgentKey,
  type AgentStarted,
  agentEndFile,
  hasAgent,
  readAgentStarted,
} from './agent-files.ts'
import { within } from './calls.ts'
import { readJson } from './files.ts'
import type { Home } from './home.ts'
import { bootId, findSupervisor, type Instance, readLife, readStarted, requireInstance } from './instance.ts'
import { findMembers } from './processes.ts'

/** How long the supervisor may take to write down the end of an agent that is gone. */
const END_KNOWN_MS_MAX = 5_000

export async function askForAgent(home: Home, agent: Agent, call: Call): Promise<AgentStatus> {
  const instance = await requireInstance(home, agent.ref)
  let status: AgentStatus | 'unknown' = 'unknown'
  await within(END_KNOWN_MS_MAX, call, async () => {
    status = await lookAtAgent(instance, agent)
    return status !== 'unknown'
  })
  if (status !== 'unknown') return status
  throw new BackendError('sandbox_unreachable', `${agent.ref} does not say how its agent is`)
}

/** Returns once it is known how an agent has ended whose processes are gone, or when that is taking too long. */
export async function endIsKnown(instance: Instance, key: AgentKey, call: Call): Promise<void> {
  await within(END_KNOWN_MS_MAX, call, async () => (await statusOf(instance, key)) !== 'unknown')
}

/** Unknown is what somebody else is about to write down. */
export async function lookAtAgent(
  instance: Instance,
  { incarnation, key }: Omit<Agent, 'ref'>,
): Promise<AgentStatus | 'unknown'> {
  const life = await readLife(instance)
  if (life.is === 'asleep') return { is: 'asleep' }
  if (life.incarnation === incarnation) return statusOf(instance, key)
  return { is: 'restarted', why: `${instance.ref} runs as ${life.incarnation}, and ${incarnation} was meant` }
}

async function statusOf(instance: Instance, key: AgentKey): Promise<AgentStatus | 'unknown'> {
  const { folder, labels } = instance
  const isRunning = (started: AgentStarted | undefined) =>
    started?.process !== undefined && labels.boot === boot && isStillThere(started.process)
  const boot = await bootId()
  if (await isRunning(await startedAs(instance, key))) return { is: 'running' }
  if (!(key === undefined ? labels.spec.agent : await hasAgent(folder, key))) return { is: 'none' }
  const supervisor = await findSupervisor(instance)
  const started = await startedAs(instance, key)
  if (await isRunning(started)) return { is: 'running' }
  // Looked for last: it is written after the agent has ended, and never goes away.
  const end = await readJson<AgentEnd>(agentEndFile(folder, key))
  if (end) return { is: 'terminated', exitCode: end.exitCode, signal: end.signal, oomKilled: end.oomKilled }
  // The supervisor will tell within moments how it ended. If that is gone as well, nobody ever will.
  if (supervisor || (!started && key === undefined)) return 'unknown'
  if (!started && (await findMembers(instance)).some(({ part }) => part === partOf(key))) return { is: 'running' }
  return { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
}

async function startedAs(instance: Instance, key: AgentKey): Promise<AgentStarted | undefined> {
  if (key !== undefined) return readAgentStarted(instance.folder, key)
  const started = await readStarted(instance)
  return started && { process: started.agent }
}
