import type { Agent, AgentStatus } from '../backend.ts'
import { answerFromInside, askInside, workInside } from '../shell/entering.ts'
import type { Account } from './account.ts'
import { answer, answerInPieces } from './errors.ts'
import { enter, insideOf } from './inside.ts'
import { type Instance, requireInstance, requireRunning } from './instance.ts'

/** What is done, and asked for, inside of a sandbox, in the incarnation that is meant. */
export function agentsInside(account: Account) {
  const working = workInside(async (target, call, work) => {
    const instance = await requireInstance(account, target.ref, call)
    requireRunning(instance, target)
    return enter(account, instance, call, work)
  })
  const asking = askInside(async (agent, call) => {
    const instance = await requireInstance(account, agent.ref, call)
    const status = outerStatus(instance, agent)
    if (status) return { status }
    requireRunning(instance, agent)
    return {
      inside: insideOf(account, instance),
      enter: (work) => enter(account, instance, call, work),
    }
  })
  return answerFromInside({ answer, answerInPieces }, working, asking)
}

/** What the sandbox itself says of an agent; undefined where that has to be asked for inside. */
function outerStatus(instance: Instance, agent: Agent): AgentStatus | undefined {
  if (instance.is === 'asleep') return { is: 'asleep' }
  if (instance.is !== 'running' || instance.incarnation === agent.incarnation) return undefined
  const { ref, incarnation } = instance
  return { is: 'restarted', why: `${ref} runs as ${incarnation}, and the run of ${agent.incarnation} was meant` }
}
