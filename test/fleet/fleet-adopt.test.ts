import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fleet } from '../../src/index.ts'
import type { FakeInstance } from '../support/provider/cloud.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld, type World } from '../support/world.ts'

const LONG = { wait: '30s' } as const

describeStores(
  'adopting',
  (kind) => {
    let world: World
    let fleet: Fleet
    beforeAll(async () => {
      world = await createWorld(kind)
      fleet = world.fleet
      await world.startWorker()
    })
    afterAll(() => world.end())
    beforeEach(() => {
      world.provider.performed.length = 0
    })

    /** One that somebody has made by hand, whom Sandman has never heard of. */
    const stray = (more: Partial<FakeInstance> = {}): FakeInstance => world.provider.putInstance(more)

    function keptCheckpoint(condition: 'ready' | 'corrupt' = 'ready'): string {
      const ref = `ckpt-${randomUUID().slice(0, 8)}`
      world.provider.checkpoints.set(ref, { ref, of: 'by-hand', condition })
      return ref
    }

    /** Whatever came of it, what was there goes on as it was. */
    function expectUndisturbed(before: FakeInstance): void {
      const {
        fleet: _fleet,
        sandboxId: _,
        life: __,
        ...rest
      } = world.provider.instances.get(before.ref) as FakeInstance
      const { fleet: _before, sandboxId: ___, life: ____, ...was } = before
      expect(rest).toEqual(was)
      const disturbing = ['create', 'end', 'run', 'endLingering', 'suspend', 'resume', 'discard', 'take', 'lease']
      const calls = world.provider.performed.filter(({ ref }) => ref === before.ref || ref === before.checkpointRef)
      expect(calls.filter(({ method }) => disturbing.includes(method))).toEqual([])
    }

    test('one that runs gives a running sandbox, which can then be asked for anything', async () => {
      const before = { ...stray() }
      const { operation, sandbox } = await fleet.adopt({
        backend: 'test',
        ref: before.ref,
        metadata: { by: 'hand' },
        ...LONG,
      })
      expect(operation).toMatchObject({ kind: 'spawn', status: 'succeeded', outcome: 'done' })
      expect(sandbox).toMatchObject({
        state: 'running',
        providerRef: before.ref,
        incarnation: '7',
        expiresAt: new Date(before.endsAtMs),
        metadata: { by: 'hand' },
      })
      await expect
        .poll(() => world.provider.instances.get(before.ref))
        .toMatchObject({ sandboxId: sandbox.id, life: operation.id })
      expectUndisturbed(before)
      expect((await fleet.pause(sandbox.id, LONG)).sandbox.state).toBe('suspended')
      expect((await fleet.resume(sandbox.id, LONG)).sandbox).toMatchObject({ state: 'running', incarnation: '8' })
      await world.expectInvariants()
    })

    test('one that sleeps gives a suspended sandbox, with a checkpoint that was looked at', async () => {
      const checkpointRef = keptCheckpoint()
      const before = { ...stray({ state: 'suspended', checkpointRef }) }
      const { operation, sandbox } = await fleet.adopt({ backend: 'test', ref: before.ref, ...LONG })
      expect(operation).toMatchObject({ status: 'succeeded', checkpointId: sandbox.checkpoint?.id })
      expect(sandbox).toMatchObject({
        state: 'suspended',
        incarnation: null,
        checkpoint: {
          providerRef: checkpointRef,
          status: 'ready',
          kind: 'pause',
          sizeBytes: 4_096,
          verifiedAt: expect.any(Date),
        },
      })
      expect(world.provider.count('verify', checkpointRef)).toBe(1)
      expectUndisturbed(before)
      expect((await fleet.resume(sandbox.id, LONG)).sandbox).toMatchObject({ state: 'running', incarnation: '8' })
      await world.expectInvariants()
    })

    test('one whose provider does not show its checkpoint is suspended on the one that is named', async () => {
      const checkpointRef = keptCheckpoint()
      const before = { ...stray({ state: 'suspended' }) }
      const { sandbox } = await fleet.adopt({ backend: 'test', ref: before.ref, checkpointRef, ...LONG })
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { providerRef: checkpointRef, status: 'ready' } })
      expectUndisturbed(before)
      await world.expectInvariants()
    })

    test.each([
      ['that shows no checkpoint', () => undefined, 'checkpoint_missing'],
      ['whose checkpoint is not there', () => 'ckpt-nowhere', 'checkpoint_missing'],
      ['whose checkpoint is not whole', () => keptCheckpoint('corrupt'), 'checkpoint_corrupt'],
    ])('one that sleeps, %s, fails, and leaves it as it is', async (_what, checkpointRef, errorType) => {
      const before = { ...stray({ state: 'suspended', checkpointRef: checkpointRef() }) }
      const { operation, sandbox } = await fleet.adopt({ backend: 'test', ref: before.ref, ...LONG })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType, retryable: false } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed', checkpoint: null })
      expectUndisturbed(before)
      await world.expectInvariants()
    })

    test('one that is not there fails, and the sandbox is gone', async () => {
      const { operation, sandbox } = await fleet.adopt({ backend: 'test', ref: 'vm-nowhere', ...LONG })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_expired' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'expired', providerRef: null })
      expect(world.provider.count('adopt')).toBe(0)
      await world.expectInvariants()
    })

    test('one that another sandbox has fails, and that one goes on', async () => {
      const owner = await world.running()
      const ref = owner.providerRef as string
      const before = { ...(world.provider.instances.get(ref) as FakeInstance) }
      world.provider.performed.length = 0
      const { operation, sandbox } = await fleet.adopt({ backend: 'test', ref, ...LONG })
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'spec_invalid', message: expect.stringContaining(owner.id) },
      })
      expect(sandbox.state).toBe('gone')
      expectUndisturbed(before)
      expect(world.provider.instances.get(ref)?.sandboxId).toBe(owner.id)
      expect(await fleet.get(owner.id)).toEqual(owner)
      await world.expectInvariants()
    })

    test('one twice at the same time gives it to one of them', async () => {
      const before = { ...stray() }
      const gate = world.provider.holdAt('look')
      const both = [1, 2].map(() => fleet.adopt({ backend: 'test', ref: before.ref, ...LONG }))
      await gate.entered(2)
      gate.open()
      const answers = await Promise.all(both)
      expect(answers.map(({ operation }) => operation.status).toSorted()).toEqual(['failed', 'succeeded'])
      const [loser] = answers.filter(({ operation }) => operation.status === 'failed')
      expect(loser).toMatchObject({ operation: { error: { errorType: 'spec_invalid' } }, sandbox: { state: 'gone' } })
      expectUndisturbed(before)
      const [winner] = answers.filter(({ operation }) => operation.status === 'succeeded')
      await expect.poll(() => world.provider.instances.get(before.ref)?.sandboxId).toBe(winner?.sandbox.id)
      await world.expectInvariants()
    })
  },
  ['postgres'],
)
