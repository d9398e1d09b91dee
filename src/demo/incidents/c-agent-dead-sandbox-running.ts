import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '../../process-identity.ts'
import { type Incident, mark, verdict, WAIT } from '../incident.ts'
import type { Machine } from '../machine.ts'

/** An agent in the middle of its work, and a tool server beside it. */
const WORKING = {
  command: ['sh', '-c', 'echo reading the repository; echo running the tests; exec sleep 600'],
  sidecar: { command: ['sleep', '600'] },
}
/** What is seen of a loop that has no end. */
const PASSES = 6

/** As the system does when there is no memory left. */
async function killAgent(machine: Machine, ref: string | null): Promise<{ agent: number; sidecar: number }> {
  const { agent, sidecar } = await machine.partsOf(ref)
  if (agent === undefined || sidecar === undefined) throw new Error('the agent and its sidecar have not started')
  process.kill(agent, 'SIGKILL')
  return { agent, sidecar }
}

/** A sidecar keeps a sandbox running, and that is taken for the life of its agent. */
export const agentDeadSandboxRunning: Incident = {
  letter: 'C',
  title: 'The agent is dead, the sandbox is running',
  happened:
    'An agent was killed for its memory in the middle of a turn, with exit code 137. Its sandbox stayed running, because a tool server beside it did; so its output was attached to again, and ended at once, every minute for an hour. The user never got an answer.',
  provider: { name: 'plain', canPause: true },

  async usual({ code, machine, say, signal }) {
    const { id, ref } = await code.create({ agent: WORKING })
    let passes = 0
    const leaving = new AbortController()
    const following = code
      .follow(id, { onBreak: () => passes++, signal: AbortSignal.any([signal, leaving.signal]) })
      .catch(() => {})
    await machine.until(async () => (await code.row(id)).turn === 'working')
    say('The agent works; a tool server runs beside it.')
    const { sidecar } = await killAgent(machine, ref)
    say('The agent is killed: exit code 137.', 'fault')
    await machine.until(async () => passes >= 1)
    const before = (await code.row(id)).silent_until?.getTime() ?? 0
    say('Its output ends. Does the sandbox run? Yes. So: attach again.')
    await machine.until(async () => passes >= PASSES)
    const { turn, silent_until } = await code.row(id)
    say(`Attached ${passes} times, and so on. Each time, the deadline for silence was moved.`, mark(turn === 'ended'))
    leaving.abort()
    await following
    const facts = {
      row: turn,
      passes,
      deadlineMoved: (silent_until?.getTime() ?? 0) > before,
      toolServerAlive: isAlive(sidecar),
    }
    return verdict(
      facts.row === 'working' && passes >= PASSES && facts.deadlineMoved && facts.toolServerAlive,
      facts,
      `Still "${turn}" after ${passes} looks at a dead agent, and its deadline moves along: the user waits for ever.`,
    )
  },

  async sandman({ fleet, backend, machine, say }) {
    const { sandbox } = await fleet.spawn({ backend, agent: WORKING, ...WAIT })
    const { id, providerRef } = sandbox
    const { execution } = await fleet.execute(id)
    await machine.until(async () => (await fleet.execution(execution.id)).execution.outputBytes > 0)
    say(`The agent works; a tool server runs beside it: ${id}.`)
    const { sidecar } = await killAgent(machine, providerRef)
    const killedAt = Date.now()
    say('The agent is killed: exit code 137.', 'fault')
    const { execution: ended } = await fleet.execution(execution.id, WAIT)
    const tookMs = (ended.endedAt?.getTime() ?? Number.POSITIVE_INFINITY) - killedAt
    say(
      `Its output ends. Does the agent run? No. Execution ${ended.status}: ${ended.reason}, exit code ${ended.exitCode}.`,
      mark(ended.exitCode === 137),
    )
    await sleep(500) // a second end would have come by now
    const { items } = await fleet.events(id)
    const facts = {
      execution: ended.status,
      reason: ended.reason,
      exitCode: ended.exitCode,
      tookMs,
      endsInHistory: items.filter(({ type }) => type === 'execution_ended').length,
      row: (await fleet.get(id)).state,
      toolServerAlive: isAlive(sidecar),
    }
    const held =
      facts.execution === 'failed' &&
      facts.exitCode === 137 &&
      facts.endsInHistory === 1 &&
      facts.row === 'running' &&
      facts.toolServerAlive
    return verdict(
      held,
      facts,
      `Known after ${tookMs} ms, and told once: failed, ${ended.reason}, exit code ${ended.exitCode}. That the tool server lives does not matter.`,
    )
  },
}
