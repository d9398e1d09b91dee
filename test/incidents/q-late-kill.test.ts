import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

const GIVEN_UP = {
  operation: { status: 'failed', attempt: 2, error: { errorType: 'provider_unauthorized', message: 'not now' } },
  sandbox: { state: 'gone', goneReason: 'spawn_failed' },
}

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

    test('what gives up on a spawn and arrives after its deadline ends nothing that is in use: nobody goes on with what may still be ended', async () => {
      const { fleet, provider } = world()
      const late = provider.holdOnceAt('end')
      provider.next('look', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
      await late.entered(1)
      const [{ ref } = { ref: 'none' }] = provider.instancesOf(sandbox.id)
      expect(await fleet.operation(operation.id, { wait: '30s' })).toMatchObject(GIVEN_UP)
      late.open()
      await expect.poll(() => provider.count('end', ref)).toBe(2)
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })
  },
  { patience: IMPATIENT, stores: ['redis'] },
)

describeIncident(
  'Q: what gave up on a spawn arrives late, from a worker that has died',
  (world) => {
    test('the next attempt knows that it was given up, and goes on giving up', async () => {
      const { fleet, provider } = world()
      const late = provider.holdOnceAt('end')
      provider.next('look', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
      const dying = await forkWorker(world(), { queues: ['spawn'] })
      await late.entered(1)
      const [{ ref } = { ref: 'none' }] = provider.instancesOf(sandbox.id)
      dying.child.kill('SIGKILL')
      await dying.exited

      await world().startWorker()
      expect(await fleet.operation(operation.id, { wait: '60s' })).toMatchObject(GIVEN_UP)
      late.open()
      await expect.poll(() => provider.count('end', ref)).toBe(2)
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })

    test('so it does when that worker was of the release before, which did not write it down', async () => {
      const { fleet, provider, db } = world()
      await world().workers.at(-1)?.stop()
      const unreachable = { kind: 'error', type: 'sandbox_unreachable', message: 'not now' } as const
      provider.next('look', unreachable, unreachable, unreachable)
      const late = provider.holdOnceAt('end')
      const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
      const before = await world().startWorker({ patience: IMPATIENT })
      await before.events.until('operation.undecided')
      await before.stop()
      await sql`update sandman.operations set giving_up = null where id = ${operation.id}`.execute(db)
      expect(provider.instancesOf(sandbox.id).length).toBe(1)

      await world().startWorker()
      expect(await fleet.operation(operation.id, { wait: '30s' })).toMatchObject({
        operation: { status: 'failed', error: { errorType: 'sandbox_unreachable' } },
        sandbox: { state: 'gone', goneReason: 'spawn_failed' },
      })
      late.open()
      await expect.poll(() => provider.count('end')).toBeGreaterThan(1)
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })
  },
  { worker: false, stores: ['postgres'] },
)
