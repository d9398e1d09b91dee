import { expect, test } from 'vitest'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'O: a row was marked destroyed, the provider call was lost in a restart, the VM lived on',
  (world) => {
    test('a destroy whose worker dies before the provider has heard of it is carried out by the next one', async () => {
      const { fleet, provider } = world()
      const [{ id }, worker] = [await world().running(), world().workers[0]]
      await worker?.stop()
      const held = provider.holdOnceAt('end')
      const dying = await forkWorker(world(), { queues: ['teardown'] })
      const { operation, sandbox } = await fleet.destroy(id)
      await held.entered(1)
      expect(sandbox.state).toBe('killing') // and not gone, before it is
      dying.child.kill('SIGKILL')
      await dying.exited
      expect(provider.instancesOf(id).length).toBe(1)

      await world().startWorker()
      const settled = await fleet.operation(operation.id, { wait: '60s' })
      expect(settled.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(settled.sandbox).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
      expect(provider.instancesOf(id)).toEqual([])
    })

    test('an end that the provider accepts and does not carry out is not believed', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      provider.next('end', { kind: 'lie' })
      const { operation, sandbox } = await fleet.destroy(id, { wait: '60s' })
      expect(operation).toMatchObject({ status: 'succeeded', attempt: 2 })
      expect(operation.lastError?.message).toContain('still shows it running')
      expect(sandbox.state).toBe('gone')
      expect(provider.instances.has(providerRef as string)).toBe(false)
    })
  },
  { stores: ['postgres'] },
)
