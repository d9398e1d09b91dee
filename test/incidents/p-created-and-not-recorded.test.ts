import { expect, test } from 'vitest'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'P: create succeeded at the provider, and the worker died before it recorded that',
  (world) => {
    test('the next attempt finds the instance by its label and makes no second one', async () => {
      const { fleet, provider } = world()
      const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
      const held = provider.holdOnceAt('look')
      const dying = await forkWorker(world(), { queues: ['spawn'] })
      await held.entered(1)
      expect(provider.instancesOf(sandbox.id)).toMatchObject([{ life: operation.id }])
      dying.child.kill('SIGKILL')
      await dying.exited
      held.open()

      await world().startWorker()
      const settled = await fleet.operation(operation.id, { wait: '60s' })
      expect(settled.operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 2, lastError: null })
      expect(provider.instancesOf(sandbox.id).map(({ ref }) => ref)).toEqual([settled.sandbox.providerRef])
    })

    test('an answer that was lost is not a failure: what was made is used', async () => {
      const { fleet, provider } = world()
      provider.next('create', { kind: 'cut', performed: true })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test', wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', attempt: 2 })
      expect(provider.instancesOf(sandbox.id).length).toBe(1)
    })

    test('what was made by a spawn that fails is ended, and seen to have ended, before the spawn is said to have failed', async () => {
      const { fleet, provider } = world()
      provider.runs = () => ({ exitCode: 1, output: 'it does not boot' })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test', wait: '60s' })
      expect(operation).toMatchObject({ status: 'failed', attempt: 3, error: { errorType: 'sandbox_unreachable' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })

    test('a spawn that the provider has rejected is failed at once: nothing can have been left behind', async () => {
      const { fleet, provider } = world()
      for (const method of ['create', 'find', 'look'] as const)
        provider.always(method, { kind: 'error', type: 'provider_unauthorized', message: 'who are you?' })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test', wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', attempt: 1, error: { errorType: 'provider_unauthorized' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
    })

    test('a spawn that failed without an answer stays open until somebody can say that nothing was left behind', async () => {
      const { fleet, provider } = world()
      provider.always('create', { kind: 'cut', performed: true })
      provider.always('find', { kind: 'status', status: 500 })
      const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
      await expect
        .poll(async () => (await world().operations(sandbox.id)).at(-1)?.failures, { timeout: 50_000 })
        .toBeGreaterThan(3)
      expect((await fleet.get(sandbox.id)).state).toBe('provisioning')
      expect(provider.instancesOf(sandbox.id).length).toBe(1)
      provider.heal()
      const settled = await fleet.operation(operation.id, { wait: '30s' })
      expect(settled.operation).toMatchObject({ status: 'failed' })
      expect(settled.sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })
  },
  { worker: false, stores: ['postgres'] },
)
