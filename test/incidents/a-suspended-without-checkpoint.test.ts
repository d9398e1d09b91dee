import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT, type World } from '../support/world.ts'

describeIncident(
  'A: suspended, but nothing to resume from',
  (world) => {
    const history = async (id: string) =>
      (await world().fleet.events(id)).items.map(({ type, to, detail }) => [type, to, detail.checkpoint_id ?? null])

    test('a second pause whose checkpoint is never recorded does not end as suspended, and history says so', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      await fleet.resume(id, { wait: '30s' })
      provider.losesCheckpoints = true

      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_missing', retryable: false },
      })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing', checkpoint: null })
      expect(await history(id)).toEqual([
        ['spawn_began', 'provisioning', null],
        ['spawned', 'running', null],
        ['pause_began', 'pausing', null],
        ['paused', 'suspended', checkpoint?.id],
        ['resume_began', 'resuming', null],
        ['resumed', 'running', null],
        ['pause_began', 'pausing', null],
        ['ended', 'gone', null],
      ])
    })

    test('a pause whose checkpoint is corrupt wakes the sandbox again when it is still alive', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const held = provider.holdAt('verify')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      const kept = provider.instances.get(providerRef as string)?.checkpointRef as string
      provider.checkpoints.delete(kept)
      // The provider still has the memory: it can be thawed without the checkpoint.
      provider.thawsWithoutCheckpoint = true
      held.open()

      const { operation, sandbox } = await pausing
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(operation.error?.message).toContain(kept)
      expect(sandbox).toMatchObject({ state: 'running', checkpoint: null })
      expect(provider.instances.get(providerRef as string)?.state).toBe('running')
    })

    test('a snapshot wakes nobody who sleeps on what just cannot be looked at: it waits until it can', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const ref = providerRef as string
      Object.assign(provider.instances.get(ref) as object, { state: 'suspended', checkpointRef: 'by-itself' })
      provider.checkpoints.set('by-itself', { ref: 'by-itself', of: ref, condition: 'ready' })
      provider.always('verify', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      const { operation } = await fleet.snapshot(id)
      await expect
        .poll(async () => (await fleet.operation(operation.id)).operation.lastError?.message)
        .toContain('Then: not now')
      expect([provider.instances.get(ref)?.state, provider.count('resume', ref)]).toEqual(['suspended', 0])
      provider.heal()
      expect(await fleet.operation(operation.id, { wait: '30s' })).toMatchObject({
        operation: { status: 'succeeded' },
        sandbox: { state: 'suspended', checkpoint: { providerRef: 'by-itself' } },
      })
    })

    test.each([
      ['missing', 'checkpoint_missing'],
      ['corrupt', 'checkpoint_corrupt'],
    ] as const)(
      'a resume from a checkpoint that is %s says which checkpoint, and ends the sandbox',
      async (condition, errorType) => {
        const { fleet, provider } = world()
        const { id, checkpoint } = await world().suspended()
        const kept = provider.checkpoints.get(checkpoint?.providerRef as string)
        if (kept) kept.condition = condition

        const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
        expect(operation).toMatchObject({
          status: 'failed',
          error: { errorType, retryable: false, checkpointId: checkpoint?.id },
        })
        expect(sandbox).toMatchObject({ state: 'gone', goneReason: errorType, checkpoint: null })
        const [row] = await checkpointsOf(world(), id)
        expect(row).toMatchObject({ id: checkpoint?.id, status: 'missing' })
      },
    )

    test('a resume whose checkpoint cannot be read is unreachable and not gone, and a retry wakes it', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      provider.always('resume', { kind: 'hang', performed: false })

      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'failed',
        attempt: 3, // the second call may only be late: it is looked at once more before it is said to sleep
        error: { errorType: 'sandbox_unreachable', retryable: true, checkpointId: checkpoint?.id },
      })
      expect(operation.error?.message).toContain('did not answer within 1000 ms')
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { id: checkpoint?.id, status: 'ready' } })

      provider.heal()
      const retried = await fleet.resume(id, { wait: '30s' })
      expect(retried.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(retried.sandbox.state).toBe('running')
    })

    test('a look that hangs is cut off, and counts as unreachable', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.always('look', { kind: 'hang', performed: false })
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_unreachable' } })
      expect(sandbox.state).toBe('suspended')
    })

    test('a plain-text 404 is not the provider saying that the sandbox is gone', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.always('look', { kind: 'plain 404' })
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_unreachable' } })
      expect(sandbox.state).toBe('suspended')
    })
  },
  { patience: IMPATIENT },
)

async function checkpointsOf({ db }: World, sandboxId: string) {
  return db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', sandboxId).orderBy('id').execute()
}
