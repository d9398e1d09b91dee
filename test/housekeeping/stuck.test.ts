import { expect, test } from 'vitest'
import { forkWorker } from '../support/crash.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import type { Fault } from '../support/provider/calls.ts'

describeWorld(
  'an operation that nobody works on',
  (world) => {
    /** A pause whose worker was killed in the middle of it; no other worker takes its queue. */
    async function stuck(performed: boolean) {
      const { fleet, provider } = world()
      const worker = await world().startWorker()
      const sandbox = await world().running()
      await worker.stop()
      if (performed) provider.next('suspend', { kind: 'hang', performed: true } satisfies Fault)
      const held = performed ? undefined : provider.holdOnceAt('suspend')
      const before = provider.attempts('suspend')
      const dying = await forkWorker(world(), { queues: ['pause'] })
      const { operation } = await fleet.pause(sandbox.id)
      await expect.poll(() => provider.attempts('suspend')).toBe(before + 1)
      dying.child.kill('SIGKILL')
      await dying.exited
      // What hung in it never happens: its connection is gone.
      if (held) provider.instances.delete(sandbox.providerRef as string)
      held?.open()
      return { sandbox, operation }
    }

    test('settles within two sweeps by what is true at the provider: it sleeps', async () => {
      const { sandbox, operation } = await stuck(true)
      expect((await world().fleet.get(sandbox.id)).state).toBe('pausing')
      const { sweep, advance, deps, events } = housekeeper(world())
      await sweep()
      expect((await world().fleet.get(sandbox.id)).state).toBe('pausing') // whoever has it may still be at it
      advance(deps.housekeeping.overdueMs)
      await sweep()
      expect(events.count('sweep.reconciling')).toBe(1)
      const settled = await world().fleet.operation(operation.id)
      expect(settled.operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 2 })
      expect(settled.sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
    })

    test('settles within two sweeps by what is true at the provider: it is gone', async () => {
      const { sandbox, operation } = await stuck(false)
      const { sweep, advance, deps } = housekeeper(world())
      advance(deps.housekeeping.overdueMs)
      await sweep()
      const settled = await world().fleet.operation(operation.id)
      expect(settled.operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(settled.sandbox).toMatchObject({ id: sandbox.id, state: 'gone', goneReason: 'checkpoint_missing' })
    })

    test('stays open while the provider does not answer, and is not guessed at', async () => {
      const { provider } = world()
      const { sandbox } = await stuck(true)
      provider.always('look', { kind: 'status', status: 500 })
      const { sweep, advance, deps } = housekeeper(world())
      for (let sweeps = 0; sweeps < 7; sweeps++) {
        advance(deps.housekeeping.overdueMs)
        await sweep()
      }
      expect((await world().fleet.get(sandbox.id)).state).toBe('pausing')
      provider.heal()
      advance(deps.housekeeping.overdueMs)
      await sweep()
      expect((await world().fleet.get(sandbox.id)).state).toBe('suspended')
    })

    test('is left to whoever has its backend, and a pause that waits for executions may wait', async () => {
      const { fleet } = world()
      const worker = await world().startWorker()
      const sandbox = await world().running()
      const { execution } = await fleet.execute(sandbox.id, { command: ['work'] })
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.status).toBe('running')
      const { operation } = await fleet.pause(sandbox.id, { ifBusy: 'wait' })
      const { sweep, advance, deps, events } = housekeeper(world())
      advance(deps.housekeeping.overdueMs * 2)
      await sweep('plain')
      await sweep()
      expect(events.count('sweep.reconciling')).toBe(0)
      world().provider.agentOf(sandbox.id, execution.id).exit()
      expect((await fleet.operation(operation.id, { wait: '30s' })).sandbox.state).toBe('suspended')
      await worker.stop()
    })
  },
  { worker: false, stores: ['redis'] },
)
