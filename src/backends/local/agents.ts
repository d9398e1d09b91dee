import { randomUUID } from 'node:crypto'
import { rename } from 'node:fs/promises'
import path from 'node:path'
import { isStillThere } from '../../process-identity.ts'
import { type Agent, BackendError, type Call, type Target } from '../backend.ts'
import { partOf } from '../shell/parts.ts'
import {
  type AgentWanted,
  agentFolder,
  agentStartedFile,
  agentsFolder,
  hasAgent,
  listKeys,
  makeAgentFolder,
  WANTED,
} from './agent-files.ts'
import { endIsKnown } from './agent-status.ts'
import { wait, within } from './calls.ts'
import { exists, removeTree, syncFolder, writeJson } from './files.ts'
import { type Home, leftoversOf, withLock } from './home.ts'
import { findSupervisor, type Instance, requireInstance } from './instance.ts'
import { endAgent, findAgent, kill } from './processes.ts'
import { requireEndable, requireRunning } from './targets.ts'

const START_POLL_MS = 5
/** How long an agent has to end by itself after it was asked to. */
const OBEY_MS_MAX = 2_000

/**
 * Says what is wanted, and waits until the supervisor has started it: that outlives the worker, and is told how the agent ends.
 *
 * Asked twice: the second finds what is wanted, or what has become of it, and waits for the same.
 * Killed half-way: nothing is wanted; or it is, and the supervisor starts it, at the latest at its next look.
 */
export async function startAgent(
  home: Home,
  target: Target,
  { key, command }: { key: string; command: readonly string[] },
  call: Call,
): Promise<void> {
  partOf(key)
  if (command.length === 0 || command.some((word) => word.includes('\0')))
    throw new BackendError('spec_invalid', `${JSON.stringify(command)} is no command`)
  // Not while a pause is at work: that would not know what it has to freeze.
  const instance = await withLock(home, target.ref, call, async () => {
    const instance = await requireInstance(home, target.ref)
    await requireRunning(instance, target)
    if (!(await hasAgent(instance.folder, key))) await writeWanted(instance, key, { command })
    return instance
  })
  if (await isStarted(instance, key, call)) return
  await requireRunning(await requireInstance(home, target.ref), target)
  throw new BackendError('sandbox_unreachable', `Nobody was there to start ${key} in ${target.ref}`)
}

async function writeWanted({ folder }: Instance, key: string, wanted: AgentWanted): Promise<void> {
  const agents = agentsFolder(folder)
  for (const left of await leftoversOf(agents, `.making-${key}`)) await removeTree(left)
  const draft = path.join(agents, `.making-${key}~${randomUUID()}`)
  try {
    await makeAgentFolder(draft)
    await writeJson(path.join(draft, WANTED), wanted)
    await rename(draft, agentFolder(folder, key))
  } catch (error) {
    await removeTree(draft)
    throw error
  }
  await syncFolder(agents)
}

/** Returns once it has been started; false when nobody is left who would do that. */
async function isStarted(instance: Instance, key: string, call: Call): Promise<boolean> {
  for (let hasToBeTold = true; ; hasToBeTold = false) {
    // In this order: one that it starts before it dies between the two looks is not missed.
    const supervisor = await findSupervisor(instance)
    if (await exists(agentStartedFile(instance.folder, key))) return true
    if (!supervisor) return false
    if (hasToBeTold) kill(supervisor.pid, 'SIGHUP')
    await wait(START_POLL_MS, call)
  }
}

/**
 * Waits until nothing more will be started. Whoever asked for an agent may have given up, or died, before it was: a process
 * that begins while all are being frozen, or ended, would be missed.
 */
export async function settleAgents(instance: Instance, call: Call): Promise<void> {
  for (const key of await listKeys(instance.folder)) {
    if (!(await exists(agentStartedFile(instance.folder, key)))) await isStarted(instance, key, call)
  }
}

/**
 * Asks all that belongs to an agent to end, and kills what is left of it after some time.
 *
 * A pause may come in between, and has to find the lock free: then the rest sleeps, and this was overtaken.
 */
export async function stopAgent(home: Home, agent: Agent, call: Call): Promise<void> {
  const { ref, key } = agent
  const changing = <T>(work: (instance: Instance) => Promise<T>) =>
    withLock(home, ref, call, async () => {
      const instance = await requireInstance(home, ref)
      await requireEndable(instance, agent)
      return work(instance)
    })
  const asked = await changing(async (instance) => {
    if (key !== undefined && (await hasAgent(instance.folder, key))) await isStarted(instance, key, call)
    const processes = await findAgent(instance, key)
    // All stand still meanwhile: a shell whose child is told first would go on with its next line, and end well.
    for (const signal of ['SIGSTOP', 'SIGTERM', 'SIGCONT'] as const) for (const { pid } of processes) kill(pid, signal)
    return processes
  })
  if (asked.length > 0) {
    await within(OBEY_MS_MAX, call, async () => !(await Promise.all(asked.map(isStillThere))).includes(true))
    await changing((instance) => endAgent(instance, key))
  }
  await endIsKnown(await requireInstance(home, ref), key, call)
}
