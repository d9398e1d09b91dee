import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'H: "already paused" was read as a failure',
  (world) => {
    test('a sandbox that its provider has paused by itself is paused, and nothing else is done to it', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const instance = provider.instances.get(providerRef as string)
      if (!instance) throw new Error('it is not there')
      instance.state = 'suspended'
      instance.checkpointRef = 'ckpt-by-itself'
      provider.checkpoints.set('ckpt-by-itself', { ref: 'ckpt-by-itself', of: instance.ref, condition: 'ready' })

      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 1 })
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { providerRef: 'ckpt-by-itself' } })
      expect(provider.count('suspend', providerRef as string)).toBe(0)
      expect(provider.count('end', providerRef as string)).toBe(0)
    })

    test('a pause that was performed and whose answer was lost is a success', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      provider.next('suspend', { kind: 'cut', performed: true })
      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 2 })
      expect(sandbox.state).toBe('suspended')
      expect(provider.count('suspend', providerRef as string)).toBe(1)
      expect(provider.checkpoints.size).toBeGreaterThan(0)
    })

    test('so is one that was put to sleep between the look and the call', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const held = provider.holdAt('suspend')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      const instance = provider.instances.get(providerRef as string)
      if (!instance) throw new Error('it is not there')
      Object.assign(instance, { state: 'suspended', checkpointRef: 'ckpt-between' })
      provider.checkpoints.set('ckpt-between', { ref: 'ckpt-between', of: instance.ref, condition: 'ready' })
      held.open()
      expect(await pausing).toMatchObject({
        operation: { status: 'succeeded', attempt: 1 },
        sandbox: { state: 'suspended', checkpoint: { providerRef: 'ckpt-between' } },
      })
    })
  },
  { stores: ['redis'] },
)
