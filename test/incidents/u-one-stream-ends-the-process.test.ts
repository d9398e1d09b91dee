import { expect, test } from 'vitest'
import { BRIEF, endOf, textOf, work } from '../executions/setup.ts'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'U: a client that follows an output ended the whole process when its socket was reset',
  (world) => {
    test('one stream that is reset, refused, garbled or silent stays its own business', async () => {
      const { provider } = world()
      const { child } = await forkWorker(world(), { patience: { ...BRIEF, breaksMax: 30, quietMs: 300, staleMs: 600 } })
      let hasDied = false
      child.once('exit', () => {
        hasDied = true
      })
      const sandbox = await world().running()
      const others = await Promise.all(Array.from({ length: 5 }, () => work(world(), { sandbox })))
      const faults = [
        { kind: 'cut', performed: false },
        { kind: 'plain 404' },
        { kind: 'status', status: 500 },
        { kind: 'hang', performed: false },
        { kind: 'error', type: 'sandbox_unreachable', message: 'no' },
      ] as const
      provider.next('attach', ...faults)
      let nth = 0
      const hows = ['reset', 'hang', 'end', 'reset'] as const
      provider.breaksStreams = () => {
        const how = hows[nth++]
        return how && { afterBytes: 2, how }
      }
      const bad = await work(world())
      for (const { agent } of [bad, ...others]) agent.write('0123456789')
      for (const { agent } of [bad, ...others]) agent.exit()
      for (const { execution } of [...others, bad]) {
        expect((await endOf(world(), execution)).status).toBe('succeeded')
        expect(await textOf(world(), execution.id)).toBe('0123456789')
      }
      expect(hasDied).toBe(false)
    })

    test('one that hangs does not hide that its agent has ended', async () => {
      const { provider } = world()
      const { stop } = await world().startWorker({ patience: { ...BRIEF, quietMs: 200, staleMs: 1_000_000 } })
      let attached = 0
      provider.breaksStreams = () => (attached++ === 0 ? { afterBytes: 2, how: 'hang' } : undefined)
      provider.starts = (agent) => agent.write('0123456789')
      const { execution, agent } = await work(world())
      agent.exit({ exitCode: 4 })
      expect(await endOf(world(), execution)).toMatchObject({ exitCode: 4, outputBytes: 10 })
      await stop()
    })

    test('one that hangs while its agent works is attached to anew after a while', async () => {
      const { fleet, provider } = world()
      const { stop } = await world().startWorker({ patience: { ...BRIEF, quietMs: 100, staleMs: 300 } })
      let attached = 0
      provider.breaksStreams = () => (attached++ === 0 ? { afterBytes: 2, how: 'hang' } : undefined)
      provider.starts = (agent) => agent.write('0123456789')
      const { execution, agent } = await work(world())
      await expect
        .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes, { timeout: 20_000 })
        .toBe(10)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
      await stop()
    })
  },
  { worker: false, stores: ['redis'] },
)
