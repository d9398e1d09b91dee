import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'F: a pause that returned before its upload had finished',
  (world) => {
    test('it is suspended only when the checkpoint was seen to be complete', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      provider.verifiesUntilReady = 3
      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', attempt: 1 })
      expect(provider.verifiesUntilReady).toBe(0)
      expect(sandbox.checkpoint).toMatchObject({ status: 'ready', sizeBytes: 4_096, verifiedAt: expect.any(Date) })
    })

    test('an upload that never finishes does not end as suspended: the sandbox is woken again, and keeps running', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      provider.verifiesUntilReady = Number.POSITIVE_INFINITY
      const { operation, sandbox } = await fleet.pause(id, { wait: '60s' })
      expect(operation).toMatchObject({
        status: 'failed',
        attempt: 5,
        error: { errorType: 'sandbox_unreachable', message: expect.stringContaining('still being written') },
      })
      expect(sandbox).toMatchObject({ state: 'running', checkpoint: null })
      expect(provider.instances.get(providerRef as string)?.state).toBe('running')
    })

    test('an upload that failed leaves nothing behind, and the sandbox is not said to be suspended', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const held = provider.holdAt('verify')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      const kept = provider.checkpoints.get(provider.instances.get(providerRef as string)?.checkpointRef as string)
      if (kept) kept.condition = 'missing'
      held.open()
      const { operation, sandbox } = await pausing
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
    })
  },
  { stores: ['redis'] },
)
