import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { identityOf, type ProcessIdentity } from '../../process-identity.ts'
import { EXIT_CODE_KILLED } from '../backend.ts'
import { partOf } from '../shell/parts.ts'
import { type AgentEnd, type AgentKey, type AgentStarted, agentEndFile, outputFile } from './agent-files.ts'
import { countOomKills, makeLeaf, type Part, removeLeaf } from './cgroups.ts'
import { exists, writeJson } from './files.ts'
import type { Instance } from './instance.ts'
import { EXIT_CODE_REFUSED, type Launch, launch } from './launch.ts'

/** What the supervisor does, and nobody else: only who has started a process is told how it ended. */

type Command = Pick<Launch, 'command' | 'env'>

const RETRY_MS = 1_000

/** Starts an agent, and will write down how it ended. If it fails, nothing was started. */
export async function runAgent(instance: Instance, key: AgentKey, asked: Command): Promise<AgentStarted> {
  const { folder, labels } = instance
  const part = partOf(key)
  const hasLeaf = key === undefined || (await makeLeaf(labels.cgroups, part))
  const countKills = async () => (hasLeaf ? countOomKills(labels.cgroups, part) : undefined)
  const killedBefore = await countKills()
  const child = start(instance, { part, leaf: hasLeaf ? part : 'command', ...asked }, outputFile(folder, key))
  void ended(child).then(async (end) => {
    // Where it cannot be counted just now, it stays unknown; that it has ended is not lost for that.
    const killed = await countKills().catch(() => undefined)
    if (killed !== undefined && killedBefore !== undefined) {
      end.oomKilled = killed > killedBefore && (end.signal === 'SIGKILL' || end.exitCode === EXIT_CODE_KILLED)
    }
    await writeInTheEnd(folder, agentEndFile(folder, key), end)
    if (key !== undefined && hasLeaf) await leave(instance, part)
  })
  return { process: await identify(child), hasCgroup: hasLeaf && Object.keys(labels.cgroups).length > 0 }
}

/** Starts a process whose output goes to a file. Undefined when that cannot even be tried, which the output then says. */
export function start(instance: Instance, asked: Omit<Launch, 'output'>, file: string): ChildProcess | undefined {
  const output = openSync(file, 'a', 0o600)
  try {
    const child = launch(instance, { ...asked, output })
    if (!child) closeSync(output)
    child?.once('spawn', () => closeSync(output)) // it has its own, and there may be hundreds
    child?.once('error', (error) => {
      writeSync(output, `${error.message}\n`)
      closeSync(output)
    })
    return child
  } catch (error) {
    closeSync(output)
    throw error
  }
}

export async function identify(child: ChildProcess | undefined): Promise<ProcessIdentity | undefined> {
  const pid = child?.pid
  return pid === undefined ? undefined : untilItWorks(() => identityOf(pid))
}

async function ended(child: ChildProcess | undefined): Promise<AgentEnd> {
  if (!child) return { exitCode: EXIT_CODE_REFUSED, signal: null }
  return new Promise((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    child.once('error', () => resolve({ exitCode: 127, signal: null }))
  })
}

/** What is known here only is not lost while it cannot be written down, as on a full disk. */
export async function writeInTheEnd(folder: string, file: string, value: unknown): Promise<void> {
  await untilItWorks(async () => {
    if (await exists(folder)) await writeJson(file, value)
  })
}

/** For what comes after a start: to fail there would mean that it was not started, and it would be started again. */
async function untilItWorks<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch {
      await sleep(RETRY_MS)
    }
  }
}

/** Agents that have ended, and have left something running in their cgroups. */
const leaving = new Set<Part>()

async function leave({ labels }: Instance, part: Part): Promise<void> {
  if (await removeLeaf(labels.cgroups, part)) leaving.delete(part)
  else leaving.add(part)
}

/** Removes the cgroups in which by now nothing is left. */
export async function tidyUp(instance: Instance): Promise<void> {
  for (const part of leaving) await leave(instance, part)
}
