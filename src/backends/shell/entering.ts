import type { answering } from '../answer.ts'
import type { Agent, AgentStatus, Backend, Call, Piece, Target } from '../backend.ts'
import { attach } from './attach.ts'
import { runCommand } from './commands.ts'
import { partOf } from './parts.ts'
import type { Inside } from './shell.ts'
import { startAgent } from './start.ts'
import { agentStatus } from './status.ts'
import { endLingering, stopAgent } from './stop.ts'

/** The way into the incarnation that is meant. It fails as the contract says when another one is there, or none. */
type Enter = <T>(target: Target, call: Call, work: (inside: Inside) => Promise<T>) => Promise<T>

/** All of a backend's methods that do their work in a shell inside, and need no more for it than a way in. */
export function workInside(enter: Enter) {
  return {
    run: (target: Target, command: string, call: Call) =>
      enter(target, call, (inside) => runCommand(inside, command, call)),

    endLingering: (target: Target, call: Call) => enter(target, call, (inside) => endLingering(inside, call)),

    async startAgent(target: Target, { key, command }: { key: string; command: readonly string[] }, call: Call) {
      const part = partOf(key)
      await enter(target, call, (inside) => startAgent(inside, { part, command }, call))
    },

    async stopAgent(agent: Agent, call: Call) {
      const part = partOf(agent.key)
      await enter(agent, call, (inside) => stopAgent(inside, part, call))
    },
  }
}

/**
 * What a sandbox itself says of an agent: that it sleeps, or runs anew. Otherwise the way in, where the agent has to be asked
 * for: `enter` for a single question, and `inside` for whoever stays to listen.
 */
export type Outside =
  | { status: AgentStatus }
  | { inside: Inside; enter<T>(work: (inside: Inside) => Promise<T>): Promise<T> }

/** The methods of a backend that ask for an agent. What fails inside may have become of the sandbox: that is looked at again. */
export function askInside(look: (agent: Agent, call: Call) => Promise<Outside>) {
  const orOutside = async (error: unknown, agent: Agent, call: Call): Promise<AgentStatus> => {
    call.signal.throwIfAborted()
    const now = await look(agent, call)
    if ('status' in now) return now.status
    throw error
  }
  return {
    async status(agent: Agent, call: Call): Promise<AgentStatus> {
      const part = partOf(agent.key)
      const seen = await look(agent, call)
      if ('status' in seen) return seen.status
      return seen
        .enter((inside) => agentStatus(inside, part, call))
        .catch((error: unknown) => orOutside(error, agent, call))
    },

    /** Of one that sleeps, or runs anew, nothing is heard, and nothing is claimed: what it has said is inside. */
    async *listen(agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
      const part = partOf(agent.key)
      const seen = await look(agent, call)
      if ('status' in seen) return
      try {
        yield* attach(seen.inside, part, cursor, call)
      } catch (error) {
        await orOutside(error, agent, call)
      }
    },
  }
}

/** The methods of a backend that does all of this inside, and in no other way: each says what failed in the same words. */
export function answerFromInside(
  { answer, answerInPieces }: ReturnType<typeof answering>,
  inside: ReturnType<typeof workInside>,
  asked: ReturnType<typeof askInside>,
): Pick<Backend, 'run' | 'endLingering' | 'startAgent' | 'stopAgent' | 'agentStatus' | 'attach'> {
  return {
    run: (target, command, call) => answer('run a command', call, () => inside.run(target, command, call)),
    endLingering: (target, call) => answer('end processes', call, () => inside.endLingering(target, call)),
    startAgent: (target, wanted, call) => answer('start an agent', call, () => inside.startAgent(target, wanted, call)),
    stopAgent: (agent, call) => answer('stop an agent', call, () => inside.stopAgent(agent, call)),
    agentStatus: (agent, call) => answer('show an agent', call, () => asked.status(agent, call)),
    attach: (agent, cursor, call) =>
      answerInPieces('give the output of an agent', call, () => asked.listen(agent, cursor, call)),
  }
}
