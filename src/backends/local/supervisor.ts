/**
 * The process that a sandbox belongs to. It starts the agent and the sidecar, writes down how the agent ended, and outlives
 * the worker that started it. It is never frozen, and stays until the sandbox is ended.
 *
 * There is one: whoever is second finds the lock taken, and leaves.
 */
import type { ChildProcess } from 'node:child_process'
import { openSync, writeSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { lockFile } from '../../file-lock.ts'
import { identityOf, type ProcessIdentity } from '../../process-identity.ts'
import { countOomKills, removeCgroups } from './cgroups.ts'
import { exists, writeJson } from './files.ts'
import { thaw } from './freeze.ts'
import { type AgentEnd, agentEndFile, type Instance, readInstance, type Started, startedFile } from './instance.ts'
import { EXIT_CODE_REFUSED, launch } from './launch.ts'
import { endMembers } from './processes.ts'

const RETRY_MS = 1_000
const FOLDER_LOOK_MS = 2_000
/** One look could fall between two steps of whoever is at work on the folder. */
const MISSES_MAX = 2
/** As a shell tells that its child was killed, and as everybody tells it of a container. */
const EXIT_CODE_KILLED = 128 + 9

// Ctrl-C in the terminal of the worker, or its end, is not meant for sandboxes.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

const folder = path.resolve(process.argv[2] ?? '')
await supervise(await readInstance(path.basename(folder), folder))

async function supervise(instance: Instance | undefined): Promise<void> {
  // The instance may have been ended while this process was starting.
  if (!instance || typeof (await lockFile(instance.supervisorLock)) === 'number') return
  if (await exists(startedFile(folder))) return
  process.on('SIGTERM', () => void endAll(instance))
  void stayWithFolder(instance)
  // A predecessor that died before it was ready may have started an agent that nobody knows of.
  await endMembers(instance, () => true)
  await writeJson(startedFile(folder), await startParts(instance))
  flushCompileCache() // Node does so at the end of a process, and this one may never end
}

/** Stays, also when nothing runs any more; but whoever removes the folder by hand has removed the sandbox. */
async function stayWithFolder(instance: Instance): Promise<void> {
  for (let misses = 0; misses < MISSES_MAX; ) {
    await sleep(FOLDER_LOOK_MS)
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
  const killedBefore = await countOomKills(instance.labels.cgroups)
  const sidecar = agent.sidecar && start(instance, 'sidecar', agent.sidecar)
  const main = start(instance, 'agent', agent)
  void ended(main).then((end) => recordEnd(instance, end, killedBefore))
  return { agent: await identify(main), sidecar: await identify(sidecar) }
}

type Command = { command: readonly string[]; env?: Record<string, string> | undefined }

function start(instance: Instance, part: 'agent' | 'sidecar', { command, env }: Command): ChildProcess | undefined {
  const output = openSync(path.join(instance.folder, `${part}.log`), 'a', 0o600)
  const child = launch(instance, { part, command, env, output })
  child?.on('error', (error) => writeSync(output, `${error.message}\n`))
  return child
}

async function identify(child: ChildProcess | undefined): Promise<ProcessIdentity | undefined> {
  const pid = child?.pid
  return pid === undefined ? undefined : identityOf(pid)
}

async function ended(child: ChildProcess | undefined): Promise<AgentEnd> {
  if (!child) return { exitCode: EXIT_CODE_REFUSED, signal: null }
  return new Promise((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    child.once('error', () => resolve({ exitCode: 127, signal: null }))
  })
}

/** How it ended is known here only. While it cannot be written down (a full disk), that is tried again. */
async function recordEnd({ labels }: Instance, end: AgentEnd, killedBefore: number | undefined): Promise<void> {
  // Where it cannot be counted just now, it stays unknown; that it has ended is not lost for that.
  const killed = await countOomKills(labels.cgroups).catch(() => undefined)
  if (killed !== undefined && killedBefore !== undefined) {
    end.oomKilled = killed > killedBefore && (end.signal === 'SIGKILL' || end.exitCode === EXIT_CODE_KILLED)
  }
  while (await exists(folder).catch(() => true)) {
    const isWritten = await writeJson(agentEndFile(folder), end).then(
      () => true,
      () => false,
    )
    if (isWritten) return
    await sleep(RETRY_MS)
  }
}
