import { type Agent, type AgentStatus, BackendError, type Call, type Piece, type Target } from '../backend.ts'
import { attach } from '../shell/attach.ts'
import { runCommand } from '../shell/commands.ts'
import { partOf } from '../shell/parts.ts'
import { ask, type Inside } from '../shell/shell.ts'
import { startAgent } from '../shell/start.ts'
import { agentStatus } from '../shell/status.ts'
import { endLingering, stopAgent } from '../shell/stop.ts'
import { type Container, Moved, shortId, stop } from './containers.ts'
import { shellIn } from './exec.ts'
import { dropAsleep } from './images.ts'
import { expired, isThere } from './instance.ts'
import type { Site } from './site.ts'
import { findMeant, overOf, ownStatus } from './status.ts'
import { changing, overtaken, requireRunning } from './targets.ts'

const OBEY_SECONDS = 2
const LOOK_MS = 10_000

/** Agents are kept under the name of their container: one that begins as a copy of another has none. */
function insideOf(site: Site, container: Container): Inside {
  return { shell: shellIn(site, container), root: shortId(container.id) }
}

/** In the incarnation that is meant, and as often as it takes until nobody renames it meanwhile: before that, nothing has begun. */
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
  if (agent.key === undefined) return ownStatus(instance, agent)
  const over = overOf(instance, agent.incarnation)
  if (over) return over
  const state = instance.agent?.state
  // They ended with their container, and nobody has seen how.
  if (state === 'exited' || state === 'dead')
    return { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
  return inside(site, agent, call, async (at, container) => {
    const status = await agentStatus(at, part, call)
    if (status.is !== 'terminated' || status.exitCode === null) return status
    if (status.exitCode !== KILLED) return { ...status, oomKilled: false }
    return { ...status, oomKilled: (await wasKilledForMemory(site, at, part, container, call)) || undefined }
  })
}

const KILLED = 137
/** The engine may hear of it a moment later than the end is written down, and tells moments in whole seconds. */
const BEFORE_SECONDS = 5
const AFTER_SECONDS = 2

/** The engine says of a container that something in it was killed for its memory, and when; not what. */
async function wasKilledForMemory({ engine }: Site, at: Inside, part: string, { id }: Container, call: Call) {
  const { words } = await ask(at, `find_base\nsay at $(stat -c %Y "$base/${part}/end")`, call)
  const endedAt = Number(words[1])
  if (!endedAt) return false
  const filters = { type: ['container'], container: [id], event: ['oom'] }
  const query = { since: endedAt - BEFORE_SECONDS, until: endedAt + AFTER_SECONDS, filters }
  const events = await engine.stream({ method: 'GET', path: '/events', query }, call)
  try {
    for await (const text of events as AsyncIterable<Buffer>) if (text.includes('"oom"')) return true
    return false
  } finally {
    events.destroy()
  }
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
