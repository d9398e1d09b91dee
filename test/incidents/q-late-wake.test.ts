import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

describeIncident(
  'Q: a late resume woke what was written down as suspended',
  (world) => {
    test('a resume that was given up while its call was on its way is looked at again before it is said to sleep', async () => {
      const { fleet, provider } = world()
      const worker = await world().startWorker({ patience: IMPATIENT })
      const { id, providerRef } = await world().suspended()
      const ref = providerRef as string
      const late = provider.holdAt('resume') // both attempts', until the time of each is up
      const { operation } = await fleet.resume(id)
      await worker.events.until('operation.undecided')
      late.open()
      await expect.poll(() => provider.count('resume', ref)).toBe(2)
      expect(await fleet.operation(operation.id, { wait: '30s' })).toMatchObject({
        operation: { status: 'failed', error: { errorType: 'sandbox_unreachable' } },
        sandbox: { state: 'suspended', checkpoint: { status: 'ready' } },
      })
      expect(provider.instances.get(ref)?.state).toBe('suspended')
    })

    test('a pause that was given up, and may have woken it, leaves it awake: that call may be on its way', async () => {
      const { fleet, provider } = world()
      await world().startWorker({ patience: IMPATIENT })
      const { id, providerRef } = await world().running()
      const ref = providerRef as string
      const late = provider.holdOnceAt('resume')
      provider.always('verify', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      const { operation } = await fleet.pause(id)
      await late.entered(1) // given up, and being woken again
      provider.heal()
      expect(await fleet.operation(operation.id, { wait: '30s' })).toMatchObject({
        operation: { status: 'failed', error: { errorType: 'provider_unauthorized' } },
        sandbox: { state: 'running' },
      })
      late.open()
      await expect.poll(() => provider.count('resume', ref)).toBe(2)
      expect(provider.instances.get(ref)?.state).toBe('running')
    })
  },
  { worker: false, stores: ['postgres'] },
)
