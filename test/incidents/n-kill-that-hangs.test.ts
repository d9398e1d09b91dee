import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

describeIncident(
  'N: a kill call hung past its timeout, and held the session',
  (world) => {
    test('it is cut off by an outer deadline, and tried again', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      provider.next('end', { kind: 'hang', performed: false })
      const { operation, sandbox } = await fleet.kill(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'succeeded',
        attempt: 2,
        lastError: { errorType: 'sandbox_unreachable' },
      })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'killed' })
      expect(provider.instancesOf(id)).toEqual([])
    })

    test('one that hangs while others are asked for holds up none of them', async () => {
      const { fleet, provider } = world()
      const stuck = await world().running()
      const others = await Promise.all(Array.from({ length: 5 }, () => world().running()))
      provider.next('end', { kind: 'hang', performed: false })
      const killing = fleet.kill(stuck.id, { wait: '30s' })
      await Promise.all(others.map(({ id }) => fleet.kill(id, { wait: '30s' })))
      expect((await killing).sandbox.state).toBe('gone')
    })

    test('when the provider could never be asked, nothing was done, and what was known of the sandbox still is', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      provider.always('look', { kind: 'status', status: 500 })
      const { operation, sandbox } = await fleet.kill(id, { wait: '60s' })
      expect(operation).toMatchObject({ status: 'failed', attempt: 8, error: { errorType: 'sandbox_unreachable' } })
      expect(sandbox).toMatchObject({ state: 'running', providerRef })
      expect(provider.count('end', providerRef as string)).toBe(0)
    })

    test('when it may have been done, the operation stays open until the provider answers, and then says what is true', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const held = provider.holdAt('end')
      const { operation } = await fleet.kill(id)
      await held.entered(1)
      provider.always('look', { kind: 'status', status: 500 })
      provider.always('end', { kind: 'cut', performed: true })
      held.open()
      await expect
        .poll(async () => (await world().operations(id)).at(-1)?.failures, { timeout: 50_000 })
        .toBeGreaterThan(9)
      expect(await fleet.get(id)).toMatchObject({ state: 'killing' })
      provider.heal()
      const settled = await fleet.operation(operation.id, { wait: '30s' })
      expect(settled.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(settled.sandbox).toMatchObject({ state: 'gone', goneReason: 'killed' })
    })
  },
  { patience: IMPATIENT, stores: ['postgres'] },
)
