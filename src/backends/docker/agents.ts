import {
  type Agent,
  type AgentStatus,
  BackendError,
  type Call,
  EXIT_CODE_KILLED,
  type Piece,
  type Target,
} from '../backend.ts'
import { attach } from '../shell/attach.ts'
import { runCommand } from '../shell/commands.ts'
import { partOf } from '../shell/parts.ts'
import { ask, type Inside } from '../shell/shell.ts'
import { startAgent } from '../shell/start.ts'
import { agentStatus } from '../shell/status.ts'
import { endLingering, stopAgent } from '../shell/stop.ts'
import { overtaken } from '../targets.ts'
import { type Container, Moved, shortId, stop } from './containers.ts'
import { shellIn } from './exec.ts'
import { dropAsleep } from './images.ts'
import { expired, isThere } from './instance.ts'
import { heardOfOom } from './oom-events.ts'
import type { Site } from './site.ts'
import { findMeant, heardOut, overOf, ownStatus } from './status.ts'
import { changing, requireRunning } from './targets.ts'

const OBEY_SECONDS = 2
const LOOK_MS = 10_000

/** Agents are kept under the name of their container: one that begins as a copy of another has none. */
function insideOf(site: Site, container: Container): Inside {
  return { shell: shellIn(site, container), root: shortId(container.id) }
}

/**
 * In the incarnation that is meant. Tried again whenever somebody has renamed the container meanwhile: then nothing has begun
 * yet.
 */
function inside<T>(site: Site, target: Target, call: Call, work: (inside: Inside, container: Container) => Promise<T>) {
  return changing(site, target.ref, call, async (instance) => {
    const container = await requireRunning(site, instance, target, call)
    return work(insideOf(site, container), container)
  })
}

export function run(site: Site, target: Target, command: string, call: Call) {
  return inside(site, target, call, (at) => runCommand(at, command, call))
}

export function endLeftovers(site: Site, target: Target, call: Call) {
  return inside(site, target, call, async (at) => {
    await endLingering(at, call)
    await dropAsleep(site, target.ref, call)
  })
}

export function startByKey(
  site: Site,
  target: Target,
  { key, command }: { key: string; command: readonly string[] },
  call: Call,
) {
  const part = partOf(key)
  return inside(site, target, call, (at) => startAgent(at, { part, command }, call))
}

export async function stopOne(site: Site, agent: Agent, call: Call): Promise<void> {
  if (agent.key === undefined) return stopOwn(site, agent, call)
  const part = partOf(agent.key)
  await inside(site, agent, call, (at) => stopAgent(at, part, call))
}

/** Its container ends with it. */
async function stopOwn(site: Site, agent: Agent, call: Call): Promise<void> {
  await changing(site, agent.ref, call, async (instance) => {
    if (!isThere(instance)) throw expired(site, agent.ref)
    const { is } = ownStatus(instance, agent)
    if (is === 'asleep' || is === 'restarted') throw overtaken(agent.ref, `its agent is ${is}`)
    if (is === 'running') await stop(site, (instance.agent as Container).fullName, OBEY_SECONDS, call)
  })
}

export async function statusOf(site: Site, agent: Agent, call: Call): Promise<AgentStatus> {
  const part = partOf(agent.key)
  const instance = await findMeant(site, agent.ref, call)
  if (agent.key === undefined) return heardOut(site, instance, ownStatus(instance, agent), call)
  const over = overOf(instance, agent.incarnation)
  if (over) return over
  const state = instance.agent?.state
  // They ended with their container, and nobody has seen how.
  if (state === 'exited' || state === 'dead')
    return { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
  return inside(site, agent, call, async (at, container) => {
    const status = await agentStatus(at, part, call)
    if (status.is !== 'terminated' || status.exitCode === null) return status
    if (status.exitCode !== EXIT_CODE_KILLED) return { ...status, oomKilled: false }
    return { ...status, oomKilled: (await wasKilledForMemory(site, at, part, container, call)) || undefined }
  })
}

async function wasKilledForMemory(site: Site, at: Inside, part: string, { id }: Container, call: Call) {
  const { words } = await ask(at, `find_base\nsay at $(stat -c %Y "$base/${part}/end")`, call)
  const endedAtSeconds = Number(words[1])
  return endedAtSeconds > 0 && (await heardOfOom(site, id, endedAtSeconds, call))
}

/** While it runs. Of one that sleeps nothing can be heard: nobody in there could say it. */
export async function* attachByKey(
  site: Site,
  agent: Agent,
  cursor: string | undefined,
  call: Call,
): AsyncGenerator<Piece> {
  const part = partOf(agent.key)
  const isSilent = async () => {
    const instance = await findMeant(site, agent.ref, call)
    const state = instance.agent?.state
    return overOf(instance, agent.incarnation) !== undefined || state === 'exited' || state === 'dead'
  }
  if (await isSilent()) return
  const container = await inside(site, agent, call, async (_at, found) => found)
  const leaving = new AbortController()
  const timer = setInterval(async () => {
    if (await isSilent().catch(() => false)) leaving.abort()
  }, LOOK_MS)
  try {
    const signal = AbortSignal.any([call.signal, leaving.signal])
    yield* attach(insideOf(site, container), part, cursor, { signal })
  } catch (error) {
    if (error instanceof Moved)
      throw new BackendError('sandbox_unreachable', `${agent.ref} is being changed`, { cause: error })
    if (call.signal.aborted || !leaving.signal.aborted) throw error
  } finally {
    clearInterval(timer)
  }
}
