import { expect, test } from 'vitest'
import { BRIEF, endOf, textOf, work } from '../executions/setup.ts'
import { describeIncident } from '../support/describe-world.ts'
import { testBackend } from '../support/test-backend.ts'
import type { World } from '../support/world.ts'

const CALL = { signal: new AbortController().signal }

/**
 * What was done before: at the end of the output, the sandbox is asked how it is. It runs, because a sidecar does; so the
 * output is attached to again, and ends at once. Returns how often it came to that, of so many times.
 */
async function naively(world: World, ref: string, executionId: string, times: number): Promise<number> {
  const backend = testBackend({ url: world.provider.url })
  let goesOn = 0
  for (let pass = 0; pass < times; pass++) {
    const seen = await backend.look(ref, CALL)
    if (seen.is !== 'running') break
    const agent = { ref, incarnation: seen.incarnation, key: executionId }
    for await (const _piece of backend.attach(agent, undefined, CALL));
    goesOn++
  }
  return goesOn
}

describeIncident(
  'C: the agent is dead, the pod is Running',
  (world) => {
    test('the execution is failed with 137, once, although the sandbox is there; the rule by the sandbox goes on for ever', async () => {
      const { fleet } = world()
      const { sandbox, execution, agent } = await work(world())
      agent.write('thinking…')
      agent.exit({ exitCode: 137, oomKilled: true })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'oom_killed', exitCode: 137 })
      expect(await textOf(world(), execution.id)).toBe('thinking…')
      expect((await fleet.get(sandbox.id)).state).toBe('running')
      expect(await naively(world(), sandbox.providerRef as string, execution.id, 50)).toBe(50)
      const { items } = await fleet.events(sandbox.id)
      expect(items.filter(({ type }) => type === 'execution_ended')).toHaveLength(1)
    })

    test('breaks that bring nothing are counted, the count is read, and it is kept for the next worker', async () => {
      const { db, provider } = world()
      provider.breaksStreams = () => ({ afterBytes: 0, how: 'end' })
      const { execution } = await work(world())
      const ended = await endOf(world(), execution)
      expect(ended).toMatchObject({ status: 'failed', reason: 'stream_lost', breaks: BRIEF.breaksMax })
      // Nobody follows it any more, so it does not run on.
      expect(provider.agentOf(execution.sandboxId, execution.id).hasEnded).toBe(true)
      const row = await db.selectFrom('executions').select('breaks').where('id', '=', execution.id).executeTakeFirst()
      expect(row).toEqual({ breaks: BRIEF.breaksMax })
    })

    test('output sets the count back', async () => {
      const { provider } = world()
      let attached = 0
      // Two in vain, one that brings a byte, and again: more in vain than there may be in a row.
      provider.breaksStreams = () => ({ afterBytes: attached++ % 3 === 2 ? 1 : 0, how: 'end' })
      provider.starts = (agent) => agent.write('0123456789')
      const { execution, agent } = await work(world())
      await expect.poll(() => attached, { timeout: 20_000 }).toBeGreaterThan(2 * BRIEF.breaksMax)
      provider.breaksStreams = () => undefined
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 10, breaks: 0 })
    })

    test.each([
      // Each holds for so long that it is a good one, and brings nothing.
      ['of silence', { deadline: '1h', silence: '2s' }, { how: 'end', afterMs: 700 }],
      // Each ends at once, while nobody can say how the agent is.
      ['at last', { deadline: '2s' }, { how: 'end' }],
    ] as const)('no break, and no retry, moves a deadline: that %s', async (_which, bounds, fault) => {
      const { fleet, provider } = world()
      provider.breaksStreams = (from) => ({ ...fault, afterBytes: from === 0 ? 1 : 0 })
      provider.starts = (agent) => agent.write('x')
      const { execution } = await work(world(), bounds)
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(1)
      if (!('silence' in bounds)) provider.always('agentStatus', { kind: 'status', status: 503 })
      const { execution: before } = await fleet.execution(execution.id)
      const ended = await endOf(world(), execution)
      expect(ended).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        hardDeadlineAt: before.hardDeadlineAt,
        lastOutputAt: before.lastOutputAt,
      })
    })
  },
  { patience: BRIEF, stores: ['redis'] },
)
