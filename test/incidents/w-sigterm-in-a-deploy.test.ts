import { expect, test } from 'vitest'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'

const MANY = 120

describeIncident(
  'W: SIGTERM in a deploy, in the middle of 120 operations',
  (world) => {
    test('the worker stops within its grace period, hands the rest over, and nothing is lost or done twice', async () => {
      const { fleet, provider, db } = world()
      const sandboxes = await Promise.all(Array.from({ length: MANY }, () => world().running()))
      await world().workers[0]?.stop()
      const asked = await Promise.all(sandboxes.map(({ id }) => fleet.pause(id)))
      expect(new Set(asked.map(({ operation }) => operation.status))).toEqual(new Set(['active']))

      // Some are done, and as many as a worker takes at once hang at the provider.
      const graceMs = 6_000
      const stopping = await forkWorker(world(), { queues: ['pause'], graceMs })
      await expect.poll(() => provider.count('suspend'), { timeout: 30_000 }).toBeGreaterThan(40)
      const held = provider.holdAt('suspend')
      await held.entered(16)
      const toldAt = performance.now()
      stopping.child.kill('SIGTERM')
      expect(await stopping.exited).toEqual({ code: 0, signal: null })
      expect(performance.now() - toldAt).toBeLessThan(graceMs)
      held.open()

      await world().startWorker()
      const ends = await Promise.all(asked.map(({ operation }) => fleet.operation(operation.id, { wait: '60s' })))
      for (const { operation, sandbox } of ends) {
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', lastError: null })
        expect(sandbox.state).toBe('suspended')
      }
      expect([...provider.instances.values()].map(({ state }) => state)).toEqual(Array(MANY).fill('suspended'))
      const rows = await db.selectFrom('checkpoints').select('provider_ref').where('status', '=', 'ready').execute()
      expect(new Set(rows.map((row) => row.provider_ref)).size).toBe(MANY)
    })

    test('a worker that is stopped while it looks what a failed operation has come to does not say what it has not seen', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      await world().workers.at(-1)?.stop()
      const stopping = await world().startWorker({ graceMs: 5_000 })
      const suspending = provider.holdOnceAt('suspend')
      const { operation } = await fleet.pause(id)
      await suspending.entered(1)
      provider.next('suspend', { kind: 'error', type: 'provider_unauthorized', message: 'not now' })
      const looking = provider.holdOnceAt('look')
      suspending.open()
      await looking.entered(1)
      await stopping.stop()
      expect(stopping.events.count('job.handed_back')).toBe(1)
      expect((await fleet.operation(operation.id)).operation).toMatchObject({ status: 'active', lastError: null })
      looking.open()

      await world().startWorker()
      const ended = await fleet.operation(operation.id, { wait: '30s' })
      expect(ended.operation).toMatchObject({ status: 'failed', error: { errorType: 'provider_unauthorized' } })
      expect(ended.sandbox.state).toBe('running')
      expect(provider.instances.get(ended.sandbox.providerRef as string)?.state).toBe('running')
    })
  },
  { stores: ['redis'] },
)
