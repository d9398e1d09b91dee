import { afterAll, afterEach, expect, test } from 'vitest'
import { openAgentuityBackend } from '../../src/backends/agentuity/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { FakeAgentuity } from '../support/agentuity/server.ts'
import { describeIncident } from '../support/describe-world.ts'
import { describeOnProvider } from './on-a-provider.ts'

const agentuity = await FakeAgentuity.start()
const wire = await startWire(agentuity.url)
afterAll(async () => {
  await wire.close()
  await agentuity.stop()
})

const WAIT = { wait: '50s' } as const
const CALL = { signal: new AbortController().signal }
/** What sleeps is old enough to be judged after a second. */
const patience = { checkpointsMs: 700, lagMs: 10_000, settlingMs: 1_000, refusedMs: [20, 50, 100] }
const truth = (fleet: string) => openAgentuityBackend({ fleet, patience, ...agentuity.connection })

describeOnProvider({
  name: 'agentuity',
  wire,
  open: (fleet) => openAgentuityBackend({ fleet, patience, ...agentuity.connection, url: wire.url }),
  truth,
  spec: {},
  putToSleep: (ref) => agentuity.evacuate(ref),
  remove: (ref) => agentuity.cloud.destroy(agentuity.cloud.find(ref)),
  creates: ({ method, path }) => method === 'POST' && path === '/sandbox',
  ends: ({ method, path }) => method === 'DELETE' && /^\/sandbox\/sbx_\w+$/.test(path),
  // Its machine does not tell why a process was killed.
  agentEnds: { script: 'kill -9 $$', as: { exitCode: 137 } },
})

describeIncident(
  'A and B, on agentuity, where A happened',
  (world) => {
    afterEach(() => agentuity.heal())
    const spawned = { backend: 'agentuity' }
    const checkpoints = (id: string) =>
      world().db.selectFrom('checkpoints').select(['provider_ref', 'status']).where('sandbox_id', '=', id).execute()
    const history = async (id: string) =>
      (await world().fleet.events(id)).items
        .map(({ type, to }) => `${type} ${to}`)
        .filter((line) => !/agent|exec/.test(line))
    const driver = { ...spawned, agent: { command: ['sh', '-c', 'echo on duty; exec sleep 1000'] } }

    /** Evacuated once, with a checkpoint, and awake again. */
    async function resumedOnce() {
      const { fleet } = world()
      const { id, providerRef } = await world().running(driver)
      await agentuity.evacuate(providerRef as string)
      const first = await fleet.pause(id, WAIT)
      expect(first.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect((await fleet.resume(id, WAIT)).sandbox.state).toBe('running')
      return { id, ref: providerRef as string, old: first.sandbox.checkpoint?.providerRef as string }
    }

    test('evacuated and suspended twice, the second time without a checkpoint: it is gone, and everything says so', async () => {
      const { fleet } = world()
      const { id, ref, old } = await resumedOnce()
      const job = await agentuity.cloud.startJob(agentuity.cloud.find(ref), ['sleep', '1000'])
      const following = fleet.execute(id, WAIT)
      await expect.poll(async () => (await fleet.executions({ sandboxId: id })).items[0]?.status).toBe('running')
      await agentuity.evacuate(ref, 'records nothing')
      agentuity.always('listCheckpoints', { kind: 'hang', performed: false })
      // Agentuity's own history says that a checkpoint was received, and its driver is still said to run.
      const received = agentuity.cloud.find(ref).events.filter(({ type }) => type === 'checkpoint-received')
      expect([received.length, job.completedAt]).toEqual([2, undefined])

      const { operation, sandbox } = await fleet.pause(id, { ...WAIT, ifBusy: 'interrupt' })
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_missing', retryable: false },
      })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing', checkpoint: null })
      expect((await following).execution).toMatchObject({ status: 'failed' })
      expect(await history(id)).toEqual([
        'spawn_began provisioning',
        'spawned running',
        'pause_began pausing',
        'paused suspended',
        'resume_began resuming',
        'resumed running',
        'pause_began pausing',
        'ended gone',
      ])
      expect(await checkpoints(id)).toEqual([{ provider_ref: old, status: 'deleted' }])
      expect(agentuity.statusOf(ref)).toBeUndefined()
    })

    test('one that was suspended, and has lost its checkpoint since, is not resumed: which one is said, and it is replaced for who allows it', async () => {
      const { fleet } = world()
      const { id, providerRef, checkpoint } = await world().suspended(driver)
      agentuity.loseCheckpoint(providerRef as string)
      agentuity.age(providerRef as string, patience.settlingMs)
      const { operation, sandbox } = await fleet.resume(id, WAIT)
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_missing', retryable: false, checkpointId: checkpoint?.id },
      })
      expect(operation.error?.message).toContain(checkpoint?.providerRef)
      expect(operation.error?.message).toContain('suspended but has no checkpoint data')
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      const replaced = await fleet.resume(id, { ...WAIT, ifLost: 'respawn' })
      expect(replaced.operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
      await fleet.destroy(id, WAIT)
    })

    test('a pause that names a checkpoint which is not there is not believed', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running(spawned)
      agentuity.next('pause', { kind: 'pause', fate: 'names what is not there' })
      const { operation, sandbox } = await fleet.pause(id, WAIT)
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      expect(agentuity.statusOf(providerRef as string)).toBeUndefined()
    })

    test('a list of checkpoints that hangs is unreachable, and not gone: it is awake again, and can be paused later', async () => {
      const { fleet } = world()
      const { id } = await world().running(spawned)
      agentuity.always('listCheckpoints', { kind: 'hang', performed: false })
      const { operation, sandbox } = await fleet.pause(id, WAIT)
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'sandbox_unreachable', retryable: true },
      })
      expect(sandbox.state).toBe('running')
      agentuity.heal()
      expect((await fleet.pause(id, WAIT)).sandbox).toMatchObject({
        state: 'suspended',
        checkpoint: { status: 'ready' },
      })
      await fleet.destroy(id, WAIT)
    })

    test('a checkpoint that is still being written is waited for, and then it sleeps on that', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running(spawned)
      const writing = agentuity.holdWhile('writing')
      const pausing = fleet.pause(id, WAIT)
      await writing.entered(1)
      await expect.poll(() => agentuity.count('listCheckpoints', providerRef as string)).toBeGreaterThan(1)
      expect((await fleet.get(id)).state).toBe('pausing')
      writing.open()
      expect((await pausing).sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
      await fleet.destroy(id, WAIT)
    })

    test('a pause that breaks it, and a sandbox that is then terminated, end as one that is gone, and never as suspended', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running(spawned)
      agentuity.next('pause', { kind: 'pause', fate: 'breaks it' })
      const arriving = agentuity.holdAt('pause')
      const pausing = fleet.pause(id, WAIT)
      await arriving.entered(1)
      arriving.open()
      await expect.poll(() => agentuity.cloud.find(providerRef as string).isHollow).toBe(true)
      await agentuity.terminate(providerRef as string)
      const { operation, sandbox } = await pausing
      expect(operation.status).toBe('failed')
      expect(sandbox.state).toBe('gone')
      expect(await history(id)).not.toContain('paused suspended')
    })

    test('a resume that has lost all files is no resume: its checkpoint is corrupt', async () => {
      const { fleet } = world()
      const { id, checkpoint } = await world().suspended(driver)
      agentuity.next('resume', { kind: 'resume', fate: 'wipes it' })
      const { operation, sandbox } = await fleet.resume(id, WAIT)
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_corrupt', checkpointId: checkpoint?.id },
      })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_corrupt' })
    })

    test('a resume that leaves something in which nothing works is unreachable, and it is asleep again', async () => {
      const { fleet } = world()
      const { id } = await world().suspended(driver)
      agentuity.next('resume', { kind: 'resume', fate: 'leaves it hollow' })
      const { operation, sandbox } = await fleet.resume(id, WAIT)
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'sandbox_unreachable', retryable: true },
      })
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
      await fleet.destroy(id, WAIT)
    })

    test('one that Agentuity has terminated while it slept is gone, and is replaced for who allows it (incident B)', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().suspended({ backend: 'agentuity', agentThreadId: 'thread-1' })
      await agentuity.terminate(providerRef as string, 0)
      const { operation, sandbox } = await fleet.resume(id, { ...WAIT, ifLost: 'respawn' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
      expect(sandbox).toMatchObject({ id, state: 'running', agentThreadId: null })
      const backend = await truth(world().place.fleet)
      expect((await backend.find(id, CALL)).map(({ ref }) => ref)).toEqual([sandbox.providerRef])
      await fleet.destroy(id, WAIT)
    })
  },
  { stores: ['postgres'], open: truth },
)
