import { Sandbox } from 'e2b'
import { expect, onTestFinished } from 'vitest'
import type { Agent, Backend, Call, Lease, Pausing, Snapshots, Target, Wanted } from '../../../src/backends/backend.ts'
import type { E2bOptions } from '../../../src/backends/e2b/account.ts'
import { openE2bBackend } from '../../../src/backends/e2b/backend.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { FakeE2b, type FakeE2bOptions } from '../../support/e2b/server.ts'

export const CALL: Call = { signal: new AbortController().signal }
export const OWNER = { sandboxId: `sbx_${'a'.repeat(26)}`, life: `op_${'1'.repeat(26)}` }
export const KEY = `exe_${'e'.repeat(26)}`
export const HOUR_MS = 3_600_000
export const IDLING = ['sleep', '1000']
export const sh = (script: string) => ['sh', '-c', script]

type Awake = Target & { incarnation: string }

export type Bench = {
  e2b: FakeE2b
  backend: Backend
  pausing: Pausing
  snapshots: Snapshots
  lease: Lease
  open(options?: Partial<E2bOptions>): Promise<Backend>
  create(spec?: Spec, more?: Partial<Wanted>): Promise<Awake>
  running(ref: string): Promise<Awake>
  /** One that somebody else has made, by the SDK. It is killed when its time is over, unless it is made otherwise. */
  createElsewhere(options?: Parameters<typeof Sandbox.create>[1]): Promise<Awake>
  resume(ref: string, checkpointRef?: string): Promise<Awake>
  start(target: Awake, command: string[], key?: string): Promise<Agent>
}

/** A backend at an E2B of its own. */
export async function setup({ fleet = 'test', ...options }: FakeE2bOptions & { fleet?: string } = {}): Promise<Bench> {
  const e2b = await FakeE2b.start(options)
  onTestFinished(() => e2b.stop())
  const open = (more: Partial<E2bOptions> = {}) => openE2bBackend({ fleet, ...e2b.connection, ...more })
  const backend = await open()
  const { pausing, snapshots, lease } = backend
  if (pausing === 'none' || snapshots === 'none' || lease === 'none') return expect.unreachable()
  const running = async (ref: string) => {
    const sighting = await backend.look(ref, CALL)
    if (sighting.is !== 'running') throw new Error(`${ref} does not run: ${JSON.stringify(sighting)}`)
    return { ref, incarnation: sighting.incarnation }
  }
  return {
    ...{ e2b, backend, pausing, snapshots, lease, open, running },
    create: async (spec, more) => running((await backend.create(wanted(spec, more), CALL)).ref),
    createElsewhere: async (more = {}) =>
      running((await Sandbox.create('base', { ...e2b.connection, timeoutMs: HOUR_MS, ...more })).sandboxId),
    resume: async (ref, checkpointRef) => {
      await pausing.resume({ ref, checkpointRef }, { key: 'op_resume', ttlMs: HOUR_MS }, CALL)
      return running(ref)
    },
    start: async (target, command, key = KEY) => {
      await backend.startAgent(target, { key, command }, CALL)
      return { ...target, key }
    },
  }
}

export function wanted(spec: Spec = {}, more: Partial<Wanted> = {}): Wanted {
  return { ...OWNER, spec, checkpointRef: undefined, ttlMs: HOUR_MS, ...more }
}

export const fails = (type: string, message?: string) => ({
  name: 'BackendError',
  type,
  ...(message !== undefined && { message: expect.stringContaining(message) }),
})
