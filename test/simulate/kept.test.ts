import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Backend, BackendError, type Sighting } from '../../src/backends/backend.ts'
import { runningClock as clock } from '../../src/clock.ts'
import { requestSpawn } from '../../src/db/request.ts'
import { type Attempt, take } from '../../src/db/take.ts'
import { Events } from '../../src/events.ts'
import { endInstance, TakenOver } from '../../src/jobs/end.ts'
import type { Work } from '../../src/jobs/operation.ts'
import { PATIENCE } from '../../src/jobs/patience.ts'
import { pause } from '../../src/jobs/pause.ts'
import { Provider } from '../../src/jobs/provider.ts'
import { resume } from '../../src/jobs/resume.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { isThorough } from '../support/thorough.ts'
import { printed, simulate } from './support.ts'

/**
 * What the simulation has found, each by the seed that showed it and in the shortest story that shows it. A seed is a story only with the
 * code that it was told to; the short ones stay what they are. Seed 57's is in executions/executions.test.ts: an agent that was started
 * by a call whose answer was lost, and then could not be started again, was said not to have been started, and ran on; seed 93's beside it: that
 * call was still on its way. Seed 876's is in
 * executions/true-end.test.ts: half of an output was gone with its sandbox, and nobody said so. Seed 44's is in executions/waking.test.ts: a
 * snapshot found its sandbox put to sleep by its provider, and what ran in it was said to have been cancelled. Seed 502's is in
 * incidents/q-late-kill.test.ts: what gave up on a spawn came late, and ended what the next attempt had gone on with.
 */
let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

test('the seeds that found what is told below find nothing any more', async () => {
  // What each of them found has a test of its own. Some come to rest only after an hour, which takes ten times as long.
  const seeds = isThorough ? [120, 309, 36, 1010, 57, 261, 876, 502, 989, 93] : [36]
  expect(printed(await simulate(seeds, { steps: 24 }))).toEqual([])
}, 180_000)

test('seed 120: an output that is full while more of it comes does not hold up the whole worker for ever', async () => {
  const script = path.join(import.meta.dirname, 'kept', 'full-output.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [script], { timeout: 30_000, killSignal: 'SIGKILL' })
  expect(JSON.parse(stdout)).toEqual({ wasInterrupted: true, truncated: true })
})

test('seed 309: an attempt that was overtaken ends nothing that the newer one may have made', async () => {
  const { db } = database
  const spawn = { fleet: 'kept', backend: 'stub', canPause: true, canSnapshot: true, clock }
  const { operation } = await requestSpawn(db, spawn)
  const begin = async () => {
    const { attempt } = await take(db, { fleet: 'kept', operationId: operation.id, worker: 'any', clock })
    return attempt as Attempt
  }
  const [stale, current] = [await begin(), await begin()]
  const ended: string[] = []
  const backend = stub({
    look: async () => (ended.length > 0 ? { is: 'absent' } : { is: 'running', incarnation: '1' }),
    end: async ({ ref }) => {
      ended.push(ref)
    },
  })
  const work = (attempt: Attempt) =>
    ({ db, attempt, backend, provider: provider(), sandbox: { id: 'sbx' } }) as unknown as Work
  await expect(endInstance(work(stale), 'vm-15')).rejects.toBeInstanceOf(TakenOver)
  expect(ended).toEqual([])
  await endInstance(work(current), 'vm-15')
  expect(ended).toEqual(['vm-15'])
})

test('seed 36: what was put back to sleep, and could not be looked at at once, is known by what it sleeps on now', async () => {
  const looks: (Sighting | BackendError)[] = [
    { is: 'running', incarnation: '2' },
    new BackendError('sandbox_unreachable', 'it does not answer'),
    { is: 'suspended', checkpointRef: 'vm-13@2' },
    { is: 'suspended', checkpointRef: 'vm-13@2' },
  ]
  const backend = stub({
    look: async () => {
      const seen = looks.shift()
      if (!seen || seen instanceof BackendError) throw seen
      return seen
    },
    pausing: {
      preserves: 'memory',
      consumesCheckpoint: true,
      needsCheckpoint: true,
      suspend: async () => ({ checkpointRef: 'vm-13@2' }),
      resume: async () => {},
      verify: async () => ({ is: 'ready' }),
      discard: async () => {},
    },
  })
  const work = {
    ...{ backend, provider: provider(), evidence: {}, leaseMs: 60_000 },
    sandbox: { id: 'sbx', state: 'resuming', provider_ref: 'vm-13', incarnation: '1' },
    checkpoint: { id: 'ckpt', provider_ref: 'vm-13@1' },
    operation: { id: 'op', options: {}, acted: false, attempt: 2, failures: 1 },
  } as unknown as Work
  const ending = await resume.giveUp(work, failure('sandbox_unreachable', 'the answer to lease was lost'))
  expect(ending).toMatchObject({
    status: 'failed',
    rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef: 'vm-13@2' } },
  })
})

test('seed 1010: what an earlier attempt has put back to sleep is woken from what it sleeps on now, and not ended', async () => {
  let isAwake = false
  const wokenFrom: unknown[] = []
  const backend = stub({
    look: async () => (isAwake ? { is: 'running', incarnation: '3' } : { is: 'suspended', checkpointRef: 'ckpt-23' }),
    pausing: {
      preserves: 'memory',
      consumesCheckpoint: false,
      needsCheckpoint: true,
      suspend: async () => ({ checkpointRef: undefined }),
      async resume({ checkpointRef }) {
        wokenFrom.push(checkpointRef)
        isAwake = true
      },
      verify: async () => ({ is: 'ready' }),
      discard: async () => {},
    },
    lease: 'none',
    endLingering: async () => {},
    run: async () => ({ exitCode: 0, output: 'awake' }),
  })
  const attempted = (acted: boolean) =>
    ({
      ...{ backend, provider: provider(), evidence: {}, leaseMs: 60_000 },
      sandbox: { id: 'sbx', state: 'resuming', provider_ref: 'vm-16', incarnation: '1', spec: {} },
      checkpoint: { id: 'ckpt', provider_ref: 'ckpt-19' },
      operation: { id: 'op', options: {}, acted, attempt: 2, failures: 1 },
    }) as unknown as Work
  expect(await resume.perform(attempted(true))).toMatchObject({ status: 'succeeded', rest: { state: 'running' } })
  isAwake = false
  await resume.perform(attempted(false)) // nobody of this operation has touched it: only what its row names may be woken
  expect(wokenFrom).toEqual(['ckpt-23', 'ckpt-19'])
})

test('seed 261: what its provider has put to sleep is written down when it can be seen, however often it could not before', async () => {
  let isSeen = false
  const backend = stub({
    look: async () => ({ is: 'suspended', checkpointRef: 'vm-19@1' }),
    pausing: {
      preserves: 'disk',
      consumesCheckpoint: true,
      needsCheckpoint: true,
      suspend: async () => ({ checkpointRef: undefined }),
      resume: async () => {},
      verify: async () => {
        if (!isSeen) throw new BackendError('sandbox_unreachable', 'the answer was lost')
        return { is: 'ready' }
      },
      discard: async () => {},
    },
  })
  const work = {
    ...{ backend, provider: provider(), evidence: {}, leaseMs: 60_000 },
    sandbox: { id: 'sbx', state: 'pausing', provider_ref: 'vm-19', incarnation: '1', open_executions: 0 },
    operation: { id: 'op', options: { only: 'asleep' }, acted: false, attempt: 70, failures: 5 },
  } as unknown as Work
  const error = failure('sandbox_unreachable', 'the answer to look was lost') // why the last of its attempts has failed
  await expect(pause.giveUp(work, error)).rejects.toThrow('the answer was lost') // it stays open, and is looked at again
  isSeen = true
  expect(await pause.giveUp(work, error)).toMatchObject({
    status: 'succeeded',
    isUnasked: true,
    rest: { state: 'suspended', checkpoint: { providerRef: 'vm-19@1' } },
  })
})

test('seed 989: what a pause that was given up finds awake has the time that it was given by waking, and no other', async () => {
  const endsAt = new Date(Date.now() + 300_000)
  const work = {
    ...{ backend: stub({ look: async () => ({ is: 'running', incarnation: '2', endsAt }) }), provider: provider() },
    ...{ evidence: {}, leaseMs: 3_600_000 },
    sandbox: { id: 'sbx', state: 'pausing', provider_ref: 'vm-13', incarnation: '1', open_executions: 0 },
    operation: { id: 'op', options: {}, acted: true, attempt: 2, failures: 5 },
  } as unknown as Work
  const ending = await pause.giveUp(work, failure('quota_exceeded', 'named refuses look'))
  expect(ending).toMatchObject({ status: 'failed', rest: { state: 'running', incarnation: '2', expiresAt: endsAt } })
})

function provider(): Provider {
  const { signal } = new AbortController()
  const asker = { sweepOf: 'nothing' }
  return new Provider({ backend: 'stub', asker, sandboxId: 'sbx', patience: PATIENCE, signal, events: new Events() })
}

function stub(methods: Partial<Backend>): Backend {
  return { name: 'stub', ...methods } as Backend
}
