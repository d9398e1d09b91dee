import type { Agent, Call, Target } from '../backend.ts'
import { runCommand } from './commands.ts'
import { partOf } from './parts.ts'
import type { Inside } from './shell.ts'
import { startAgent } from './start.ts'
import { endLingering, stopAgent } from './stop.ts'

/** The way into the incarnation that is meant. It fails as the contract says when another one is there, or none. */
export type Enter = <T>(target: Target, call: Call, work: (inside: Inside) => Promise<T>) => Promise<T>

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
