import type { Agent, AgentStatus } from '../backend.ts'
import { askInside, workInside } from '../shell/entering.ts'
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

export const askedInside = (account: Account) =>
  askInside(async (agent, call) => {
    const instance = await requireInstance(account, agent.ref, call)
    const status = outerStatus(instance, agent)
    if (status) return { status }
    requireRunning(instance, agent)
    return {
      inside: insideOf(account, instance),
      enter: (work) => enter(account, instance, call, work),
    }
  })

/** What the sandbox itself says of an agent; undefined where that has to be asked for inside. */
function outerStatus(instance: Instance, agent: Agent): AgentStatus | undefined {
  if (instance.is === 'asleep') return { is: 'asleep' }
  if (instance.is !== 'running' || instance.incarnation === agent.incarnation) return undefined
  const { ref, incarnation } = instance
  return { is: 'restarted', why: `${ref} runs as ${incarnation}, and the run of ${agent.incarnation} was meant` }
}
