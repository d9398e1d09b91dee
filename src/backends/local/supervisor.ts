/**
 * The process that a sandbox belongs to. It starts the agent and the sidecar, and later on the agents that are asked for by
 * key; it writes down how the agents ended, and outlives the worker that started it. It is never frozen, and stays until the
 * sandbox is ended.
 *
 * There is one: whoever is second finds the lock taken, and leaves.
 */
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { lockFile } from '../../file-lock.ts'
import { removeCgroups } from './cgroups.ts'
import { exists, writeJson } from './files.ts'
import { thaw } from './freeze.ts'
import { type Instance, readInstance, type Started, startedFile } from './instance.ts'
import { endMembers } from './processes.ts'
import { identify, runAgent, start, tidyUp } from './run-agent.ts'
import { startWanted } from './wanted-agents.ts'

const FOLDER_LOOK_MS = 2_000
/** One look could fall between two steps of whoever is at work on the folder. */
const MISSES_MAX = 2

// Ctrl-C in the terminal of the worker, or its end, is not meant for sandboxes. Once this is ready, SIGHUP also tells it that an
// agent is wanted: a machine has only so many watches on folders, and a signal costs none. One that comes too early does no harm.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

const folder = path.resolve(process.argv[2] ?? '')
await supervise(await readInstance(path.basename(folder), folder))

async function supervise(instance: Instance | undefined): Promise<void> {
  // The instance may have been ended while this process was starting.
  if (!instance || typeof (await lockFile(instance.supervisorLock)) === 'number') return
  if (await exists(startedFile(folder))) return
  process.on('SIGTERM', () => void endAll(instance))
  const lookForWanted = startWanted(instance)
  process.on('SIGHUP', () => void lookForWanted())
  void stayWithFolder(instance, lookForWanted)
  // A predecessor that died before it was ready may have started an agent that nobody knows of.
  await endMembers(instance, () => true)
  await writeJson(startedFile(folder), await startParts(instance))
  flushCompileCache() // Node does so at the end of a process, and this one may never end
}

/** Stays, also when nothing runs any more; but whoever removes the folder by hand has removed the sandbox. */
async function stayWithFolder(instance: Instance, lookForWanted: () => Promise<void>): Promise<void> {
  for (let misses = 0; misses < MISSES_MAX; ) {
    await sleep(FOLDER_LOOK_MS)
    await lookForWanted() // a worker may have been killed before it could say that there is something
    await tidyUp(instance)
    const isThere = await exists(folder).catch(() => true)
    misses = isThere ? 0 : misses + 1
  }
  await endAll(instance)
}

async function endAll(instance: Instance): Promise<void> {
  try {
    await thaw(instance) // what is frozen does not even die
    await endMembers(instance, () => true)
    if (!(await exists(folder))) await removeCgroups(instance.labels.cgroups) // nobody else knows of them any more
  } finally {
    process.exit(0)
  }
}

async function startParts(instance: Instance): Promise<Started> {
  const { agent } = instance.labels.spec
  if (!agent) return { agent: undefined, sidecar: undefined }
  const sidecar =
    agent.sidecar &&
    start(instance, { part: 'sidecar', env: undefined, ...agent.sidecar }, path.join(instance.folder, 'sidecar.log'))
  return {
    agent: (await runAgent(instance, undefined, { command: agent.command, env: agent.env })).process,
    sidecar: await identify(sidecar),
  }
}
