import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

describeIncident(
  'Q: a late kill hit the new incarnation after a resume',
  (world) => {
    test('a kill that arrives after the sandbox was resumed was meant for another incarnation, and does nothing', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const late = provider.holdOnceAt('end')
      // The first call is on its way for long; the second is refused, so that the kill has failed.
      const killing = fleet.kill(id, { wait: '30s' })
      await late.entered(1)
      provider.next('end', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      expect(await killing).toMatchObject({ operation: { status: 'failed' }, sandbox: { state: 'running' } })
      await fleet.pause(id, { wait: '30s' })
      const { sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(sandbox).toMatchObject({ state: 'running', incarnation: '2' })

      late.open()
      await expect.poll(() => provider.count('end', providerRef as string)).toBe(1)
      expect(provider.instances.get(providerRef as string)).toMatchObject({ state: 'running', incarnation: 2 })
      expect(provider.performed.findLast(({ method }) => method === 'end')?.body).toMatchObject({
        target: { ref: providerRef, incarnation: '1' },
      })
    })
  },
  { patience: IMPATIENT, stores: ['redis'] },
)
