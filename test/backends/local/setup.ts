import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, onTestFinished } from 'vitest'
import type { Agent, Backend, Call, Target, Wanted } from '../../../src/backends/backend.ts'
import { outputFile } from '../../../src/backends/local/agent-files.ts'
import { openLocalBackend } from '../../../src/backends/local/backend.ts'
import { removeCgroups } from '../../../src/backends/local/cgroups.ts'
import { type Instance, readInstance } from '../../../src/backends/local/instance.ts'
import { endEverything } from '../../../src/backends/local/processes.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { shareCompiled } from '../../support/compiled.ts'

export const CALL: Call = { signal: new AbortController().signal }
export const SANDBOX = `sbx_${'a'.repeat(26)}`
export const FIRST_LIFE = `op_${'1'.repeat(26)}`
export const HOME_ID = 'c0ffee00'
export const REF = `${HOME_ID}.${SANDBOX}.${FIRST_LIFE}`
/** The agent that the first sandbox was made with. */
export const OWN: Agent = { ref: REF, incarnation: FIRST_LIFE, key: undefined }

/** Counts, line by line, and says first which process it is. */
export const COUNTING = ['sh', '-c', 'echo $$; i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done']
export const IDLING = ['sleep', '1000']

/** As they are named by whoever runs executions. */
export const KEY = `exe_${'e'.repeat(26)}`
export const OTHER_KEY = `exe_${'f'.repeat(26)}`

export const sh = (script: string) => ['sh', '-c', script]

/** Everything that works must work with and without cgroups. Where nobody may use them, both are the same. */
export const WAYS = [
  ['with cgroups', true],
  ['by signals', false],
] as const

export type Bench = {
  folder: string
  backend: Backend
  instance(ref?: string): Promise<Instance>
  create(agent?: readonly string[], more?: Partial<Wanted>): Promise<Target & { incarnation: string }>
  running(ref: string): Promise<Target & { incarnation: string }>
  start(command: readonly string[], key?: string): Promise<Agent>
  /** What an agent has printed so far: the one that the first sandbox was made with, unless a key names another. */
  output(key?: string): Promise<string>
}

/** A backend in a folder of its own. Whatever was started in it, by whomever, has ended when the test is over. */
export async function setup({ cgroups = true, homeId = HOME_ID } = {}): Promise<Bench> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-local-'))
  onTestFinished(async () => {
    for (const fleet of await readdir(folder)) await cleanUp(path.join(folder, fleet, 'instances'))
    await rm(folder, { recursive: true, force: true })
  })
  await shareCompiled(folder, 'test')
  await writeFile(path.join(folder, 'test', 'home'), homeId)
  const backend = openLocalBackend({ folder, fleet: 'test', cgroups })
  const running = async (ref: string) => {
    const sighting = await backend.look(ref, CALL)
    if (sighting.is !== 'running') throw new Error(`${ref} does not run: ${JSON.stringify(sighting)}`)
    return { ref, incarnation: sighting.incarnation }
  }
  return {
    folder,
    backend,
    running,
    start: async (command, key = KEY) => {
      const target = await running(REF)
      await backend.startAgent(target, { key, command }, CALL)
      return { ...target, key }
    },
    instance: async (ref = REF) =>
      (await readInstance(ref, path.join(folder, 'test', 'instances', ref))) ?? expect.unreachable(),
    create: async (agent, more) => {
      const { ref } = await backend.create(wanted(agent, more), CALL)
      return running(ref)
    },
    output: (key) => readFile(outputFile(path.join(folder, 'test', 'instances', REF), key), 'utf8'),
  }
}

export function wanted(agent: readonly string[] | undefined = IDLING, more: Partial<Wanted> = {}): Wanted {
  const spec: Spec = { agent: { command: [...agent] } }
  return { sandboxId: SANDBOX, life: FIRST_LIFE, spec, checkpointRef: undefined, ttlMs: 60_000, ...more }
}

async function cleanUp(instances: string): Promise<void> {
  for (const name of await readdir(instances).catch(() => [])) {
    const instance = await readInstance(name, path.join(instances, name)).catch(() => undefined)
    if (!instance) continue
    await endEverything(instance)
    await removeCgroups(instance.labels.cgroups)
  }
}

/** As the system tells it: T is stopped, Z has ended. Undefined when there is no such process. */
export async function stateOf(pid: number): Promise<string | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return status.match(/^State:\s+(\S)/m)?.[1]
}

export async function isGone(pid: number): Promise<boolean> {
  const state = await stateOf(pid)
  return state === undefined || state === 'Z'
}

export const terminated = (exitCode: number | null, signal: string | null) =>
  expect.objectContaining({ is: 'terminated', exitCode, signal })
