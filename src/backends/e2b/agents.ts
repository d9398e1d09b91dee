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
    const inside = insideOf(account, instance)
    return { inside, enter: (work) => work(inside) }
  })

/** What the sandbox itself says of an agent; undefined where that has to be asked for inside. */
function outerStatus({ ref, isRunning, incarnation }: Instance, agent: Agent): AgentStatus | undefined {
  if (!isRunning) return { is: 'asleep' }
  if (incarnation === agent.incarnation) return undefined
  return { is: 'restarted', why: `${ref} runs since ${incarnation}, and the run of ${agent.incarnation} was meant` }
}
