import type { Agent, AgentStatus, Call } from '../backend.ts'
import { attach } from '../shell/attach.ts'
import { workInside } from '../shell/entering.ts'
import { partOf } from '../shell/parts.ts'
import { agentStatus } from '../shell/status.ts'
import type { Account } from './account.ts'
import { enter, insideOf } from './inside.ts'
import { type Instance, requireInstance, requireRunning } from './instance.ts'

/** What is done inside of a sandbox, in the incarnation that is meant. */
export const insideOfRunning = (account: Account) =>
  workInside(async (target, call, work) => {
    const instance = await requireInstance(account, target.ref, call)
    requireRunning(instance, target)
    return enter(account, instance, call, work)
  })

/** What the sandbox itself says of an agent; undefined where that has to be asked for inside. */
function outerStatus(instance: Instance, agent: Agent): AgentStatus | undefined {
  if (instance.is === 'asleep') return { is: 'asleep' }
  if (instance.is !== 'running' || instance.incarnation === agent.incarnation) return undefined
  const { ref, incarnation } = instance
  return { is: 'restarted', why: `${ref} runs as ${incarnation}, and the run of ${agent.incarnation} was meant` }
}

export async function status(account: Account, agent: Agent, call: Call): Promise<AgentStatus> {
  const part = partOf(agent.key)
  const instance = await requireInstance(account, agent.ref, call)
  const outer = outerStatus(instance, agent)
  if (outer) return outer
  requireRunning(instance, agent)
  try {
    return await enter(account, instance, call, (inside) => agentStatus(inside, part, call))
  } catch (error) {
    call.signal.throwIfAborted()
    const now = outerStatus(await requireInstance(account, agent.ref, call), agent)
    if (now) return now
    throw error
  }
}

/** Of one that sleeps, or runs anew, nothing is heard, and nothing is claimed: what it has said is inside. */
export async function* listen(account: Account, agent: Agent, cursor: string | undefined, call: Call) {
  const part = partOf(agent.key)
  const instance = await requireInstance(account, agent.ref, call)
  if (outerStatus(instance, agent)) return
  requireRunning(instance, agent)
  try {
    yield* attach(insideOf(account, instance), part, cursor, call)
  } catch (error) {
    call.signal.throwIfAborted()
    if (outerStatus(await requireInstance(account, agent.ref, call), agent)) return
    throw error
  }
}
