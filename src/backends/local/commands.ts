import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { Call, Target } from '../backend.ts'
import { settleAgents } from './agents.ts'
import { type Home, withLock } from './home.ts'
import { requireInstance } from './instance.ts'
import { EXIT_CODE_REFUSED, launch } from './launch.ts'
import { endMembers, kill } from './processes.ts'
import { requireRunning } from './targets.ts'

/** The end of what a command has printed is what says why it failed. */
const OUTPUT_BYTES_MAX = 64 * 1024

/**
 * Its output goes into a file and not through a pipe: a server that it leaves in the background keeps nobody waiting, and does
 * not die of a reader that is gone.
 */
export async function runCommand(home: Home, target: Target, command: string, call: Call) {
  const file = path.join((await requireInstance(home, target.ref)).folder, `command-${randomUUID()}.log`)
  // Not while a pause is at work: that would not know what it has to freeze.
  const { exited, output } = await withLock(home, target.ref, call, async () => {
    const instance = await requireInstance(home, target.ref)
    await requireRunning(instance, target)
    const output = await open(file, 'ax+', 0o600)
    const env = instance.labels.spec.agent?.env
    try {
      const child = launch(instance, { part: 'command', command: ['/bin/sh', '-c', command], env, output: output.fd })
      const exited = child ? exitOf(child, call) : Promise.resolve(EXIT_CODE_REFUSED)
      exited.catch(() => {}) // until somebody waits for it
      return { exited, output }
    } catch (error) {
      await output.close()
      await rm(file, { force: true })
      throw error
    }
  })
  try {
    return { exitCode: await exited, output: await readTail(output) }
  } finally {
    await output.close()
    await rm(file, { force: true })
  }
}

/** Ends it when the call is given up, and does not wait for that: what is frozen does not end. */
async function exitOf(child: ChildProcess, { signal }: Call): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const giveUp = () => {
    if (child.pid !== undefined) kill(-child.pid, 'SIGKILL')
    reject(signal.reason)
  }
  child.once('error', reject)
  child.once('exit', (code, endedBy) => resolve(code ?? 128 + (endedBy ? os.constants.signals[endedBy] : 0)))
  signal.addEventListener('abort', giveUp)
  if (signal.aborted) giveUp()
  return promise.finally(() => signal.removeEventListener('abort', giveUp))
}

export async function endLingering(home: Home, target: Target, call: Call): Promise<void> {
  const instance = await requireInstance(home, target.ref)
  await requireRunning(instance, target)
  await settleAgents(instance, call)
  await endMembers(instance, ({ part }) => part !== 'agent' && part !== 'sidecar')
}

async function readTail(output: FileHandle): Promise<string> {
  const { size } = await output.stat()
  const length = Math.min(size, OUTPUT_BYTES_MAX)
  const { buffer, bytesRead } = await output.read(Buffer.alloc(length), 0, length, size - length)
  return buffer.toString('utf8', 0, bytesRead)
}
