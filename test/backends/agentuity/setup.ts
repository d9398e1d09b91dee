import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, expect } from 'vitest'
import type { AgentuityOptions, AgentuityPatience } from '../../../src/backends/agentuity/account.ts'
import { openAgentuityBackend } from '../../../src/backends/agentuity/backend.ts'
import type { Agent, Backend, Call, Pausing, Snapshots, Target, Wanted } from '../../../src/backends/backend.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { FakeAgentuity } from '../../support/agentuity/server.ts'

export const CALL: Call = { signal: new AbortController().signal }
const KEY = `exe_${'e'.repeat(26)}`
export const ASKED = { key: 'op_p' }
export const WAKING = { key: 'op_r', ttlMs: 3_600_000 }

/** Nothing is old enough to be judged, and little is tried again. */
const PATIENCE: Partial<AgentuityPatience> = { lagMs: 10_000, settlingMs: 3_600_000, refusedMs: [5, 10] }

/** Whatever sleeps has slept for long enough. */
const LONG_AFTER: Partial<AgentuityPatience> = { ...PATIENCE, settlingMs: 0 }

/** One for all tests of a file, each of which has a fleet of its own. */
export let agentuity: FakeAgentuity

/** Said by every file for itself: this one may be loaded once for several of them. */
export async function playAgentuity(): Promise<void> {
  agentuity = await FakeAgentuity.start()
  afterEach(() => {
    agentuity.heal()
    agentuity.cloud.becomeHonest()
  })
  afterAll(() => agentuity.stop())
}

type Awake = Target & { incarnation: string }

type Bench = {
  fleet: string
  backend: Backend
  pausing: Pausing
  snapshots: Snapshots
  owner: { sandboxId: string; life: string }
  open(options?: Partial<AgentuityOptions>): Promise<Backend>
  /** As a worker has it that looks much later. */
  later(): Promise<Pausing & { look: Backend['look'] }>
  wanted(spec?: Spec, more?: Partial<Wanted>): Wanted
  create(spec?: Spec, more?: Partial<Wanted>): Promise<Awake>
  running(ref: string): Promise<Awake>
  resume(ref: string, checkpointRef?: string): Promise<Awake>
  start(target: Awake, command: string[], key?: string): Promise<Agent>
}

export async function setup(patience: Partial<AgentuityPatience> = PATIENCE): Promise<Bench> {
  const fleet = `test-${randomBytes(4).toString('hex')}`
  const owner = { sandboxId: `sbx_${randomBytes(13).toString('hex')}`, life: `op_${randomBytes(13).toString('hex')}` }
  const open = (more: Partial<AgentuityOptions> = {}) =>
    openAgentuityBackend({ fleet, patience, ...agentuity.connection, ...more })
  const backend = await open()
  const { pausing, snapshots } = backend
  if (pausing === 'none' || snapshots === 'none') return expect.unreachable()
  const running = async (ref: string) => {
    const sighting = await backend.look(ref, CALL)
    if (sighting.is !== 'running') throw new Error(`${ref} does not run: ${JSON.stringify(sighting)}`)
    return { ref, incarnation: sighting.incarnation }
  }
  const wanted = (spec: Spec = {}, more: Partial<Wanted> = {}) => ({
    ...{ ...owner, spec, checkpointRef: undefined, ttlMs: 3_600_000 },
    ...more,
  })
  return {
    ...{ fleet, backend, pausing, snapshots, owner, open, running, wanted },
    later: async () => {
      const { pausing: late, look } = await open({ patience: LONG_AFTER })
      return late === 'none' ? expect.unreachable() : { ...late, look }
    },
    create: async (spec, more) => running((await backend.create(wanted(spec, more), CALL)).ref),
    resume: async (ref, checkpointRef) => {
      await pausing.resume({ ref, checkpointRef }, WAKING, CALL)
      return running(ref)
    },
    start: async (target, command, key = KEY) => {
      await backend.startAgent(target, { key, command }, CALL)
      return { ...target, key }
    },
  }
}

export const fails = (type: string, message?: string | RegExp) => ({
  name: 'BackendError',
  type,
  ...(message !== undefined && { message: expect.stringMatching(message) }),
})
