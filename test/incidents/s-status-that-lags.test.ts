import { expect, test } from 'vitest'
import { BRIEF, endOf, work } from '../executions/setup.ts'
import { describeIncident } from '../support/describe-world.ts'

describeIncident(
  'S: the status said "running" for seconds after the end of the output',
  (world) => {
    test.each([1, BRIEF.breaksMax - 1])(
      'it is asked for again, and the end is the true one (%i times late)',
      async (times) => {
        const { execution, agent } = await work(world())
        agent.write('x')
        agent.exit({ exitCode: 3, statusLagsFor: times })
        expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'error', exitCode: 3 })
      },
    )

    test('one that cannot be asked for is waited for: unknown is not gone', async () => {
      const { fleet, provider } = world()
      const { execution, agent } = await work(world())
      provider.always('agentStatus', { kind: 'plain 404' })
      const asked = () => provider.count('attach')
      const before = asked()
      agent.write('x')
      agent.exit()
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(1)
      // As often as it would take for a stream to be lost, and more.
      for (let look = 0; look < 3 * BRIEF.breaksMax; look++) {
        expect((await fleet.execution(execution.id)).execution.status).toBe('running')
        await new Promise((resolve) => setTimeout(resolve, BRIEF.breakMs[1]))
      }
      expect(asked()).toBeGreaterThanOrEqual(before)
      provider.heal()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', exitCode: 0 })
    })
  },
  { patience: BRIEF, stores: ['postgres'] },
)
