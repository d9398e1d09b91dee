import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { World } from '../support/world.ts'
import { BRIEF, describeExecutions, endOf, textOf, work } from './setup.ts'

/** How an execution ended is what the agent did, and not what nobody was there to hear, or what was wished too late. */

/** Resolves when a worker has asked twice more what is wished of it: then it has heard the answer to the first. */
async function rollIsCalled({ db }: World, id: string): Promise<void> {
  for (let calls = 0; calls < 2; calls++) {
    await sql`update sandman.executions set ring_at = now() + interval '1 second' where id = ${id}`.execute(db)
    const isMoved = async () => {
      const moved = sql<boolean>`ring_at > now() + interval '30 seconds'`.as('moved')
      return (await db.selectFrom('executions').select(moved).where('id', '=', id).executeTakeFirst())?.moved
    }
    await expect.poll(isMoved).toBe(true)
  }
}

/** As if nothing had been heard of it for an hour. */
async function beSilentForLong({ db }: World, id: string): Promise<void> {
  await sql`update sandman.executions set started_at = now() - interval '1 hour', last_output_at = now() - interval '1 hour'
    where id = ${id}`.execute(db)
}

describeExecutions(
  'an agent that has ended, and whose output',
  (world) => {
    test.each([{}, { deadline: '1s' }, { cancelled: true }])(
      'hangs, does not keep its execution running (%o)',
      async ({ cancelled = false, ...request }) => {
        const { fleet, provider } = world()
        provider.breaksStreams = () => ({ afterBytes: 0, how: 'hang' })
        const { execution, agent } = await work(world(), request)
        agent.write('unreadable')
        agent.exit({ exitCode: 1 })
        if (cancelled) await fleet.cancel(execution.id)
        expect(await endOf(world(), execution)).toMatchObject({
          status: 'failed',
          reason: 'error',
          exitCode: 1,
          message: expect.stringContaining('could not be read'),
        })
      },
    )

    test('is gone with its sandbox before all of it was read, ends with a message that says so', async () => {
      const { provider } = world()
      const { execution, agent } = await work(world())
      const held = provider.holdOnceAt('attach') // by which the rest would be read
      agent.breakStreams()
      await held.entered(1)
      agent.write('never read')
      agent.exit()
      provider.always('attach', { kind: 'error', type: 'sandbox_expired', message: 'there is no such sandbox' })
      held.open()
      expect(await endOf(world(), execution)).toMatchObject({
        status: 'succeeded',
        exitCode: 0,
        message: expect.stringContaining('could not be read'),
      })
    })

    test.each([true, false])(
      'ends early without a byte has not been read to its end (its length is told: %s)',
      async (tellsTotals) => {
        const { provider } = world()
        let attached = 0
        provider.tellsTotals = tellsTotals
        provider.starts = (agent) => {
          agent.write('the whole answer')
          agent.exit()
        }
        provider.breaksStreams = () => (attached++ < 2 ? { afterBytes: 0, how: 'end' } : undefined)
        const { execution } = await work(world())
        expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 16 })
        expect(await textOf(world(), execution.id)).toBe('the whole answer')
      },
    )

    test('is known to be complete is not asked for again', async () => {
      const { provider } = world()
      const held = provider.holdOnceAt('attach')
      const { execution, agent } = await work(world())
      await held.entered(1)
      agent.write('all')
      agent.exit()
      const before = provider.count('attach')
      held.open()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 3 })
      expect(provider.count('attach')).toBe(before + 1)
    })
  },
  { stores: ['redis'] },
)

describeExecutions(
  'silence',
  (world) => {
    test('is why an agent was stopped, whatever that says and does at its end', async () => {
      for (const exitCode of [0, 3]) {
        const { execution, agent } = await work(world(), { silence: '1s' })
        agent.whenStopped = () => {
          agent.write('bye')
          agent.exit({ exitCode })
        }
        expect(await endOf(world(), execution)).toMatchObject({
          status: 'failed',
          reason: 'deadline_exceeded',
          exitCode,
          message: expect.stringContaining('silent'),
        })
        expect(await textOf(world(), execution.id)).toBe('bye')
      }
    })

    test('of an agent that cannot be stopped comes to an end all the same', async () => {
      const { execution, agent } = await work(world(), { silence: '1s' })
      agent.isStubborn = true
      expect(await endOf(world(), execution)).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        message: expect.stringContaining('could not be stopped'),
      })
    })

    test('is not what nobody has read because the provider does not answer', async () => {
      const { provider } = world()
      const { execution, agent, sandbox } = await work(world(), { silence: '5s' })
      await expect.poll(() => provider.count('attach', sandbox.providerRef as string)).toBe(1)
      for (const method of ['attach', 'agentStatus'] as const) provider.always(method, { kind: 'status', status: 503 })
      const asked = provider.attempts('agentStatus')
      agent.breakStreams()
      await expect.poll(() => provider.attempts('agentStatus')).toBeGreaterThan(asked)
      await beSilentForLong(world(), execution.id)
      await rollIsCalled(world(), execution.id)
      agent.write('I am talking')
      provider.heal()
      await expect
        .poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes)
        .toBeGreaterThan(0)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 12 })
    })

    test('does not begin before the agent was started', async () => {
      const { provider } = world()
      const held = provider.holdOnceAt('startAgent')
      const { execution } = await world().fleet.execute((await world().running()).id, {
        command: ['x'],
        silence: '30s',
      })
      await held.entered(1)
      await beSilentForLong(world(), execution.id)
      held.open()
      await expect.poll(() => provider.agentKeysOf(execution.sandboxId)).toEqual([execution.id])
      await rollIsCalled(world(), execution.id)
      const agent = provider.agentOf(execution.sandboxId, execution.id)
      expect(agent.hasEnded).toBe(false)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
    })
  },
  { stores: ['redis'] },
)

describeExecutions(
  'while no worker is there',
  (world) => {
    test('an agent that talks is not silent for whoever takes over, until that has listened', async () => {
      const { fleet, provider } = world()
      const patience = { ...BRIEF, listenMs: [30_000, 30_000] as const }
      const first = await world().startWorker({ patience })
      const { execution, agent } = await work(world(), { silence: '1s' })
      agent.write('before; ')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(8)
      await first.stop()
      agent.write('meanwhile; ')
      await beSilentForLong(world(), execution.id)
      const held = provider.holdOnceAt('attach')
      const second = await world().startWorker({ patience })
      await held.entered(1)
      await rollIsCalled(world(), execution.id)
      held.open()
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(19)
      expect(agent.hasEnded).toBe(false)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
      await second.stop()
    })

    test('an agent that ends has ended as it did, whatever has passed or is wished since then', async () => {
      const { fleet } = world()
      const first = await world().startWorker({ patience: BRIEF })
      const late = await work(world(), { deadline: '2s' })
      const silent = await work(world(), { silence: '1s' })
      const cancelled = await work(world())
      const all = [late, silent, cancelled]
      await first.stop()
      for (const [nth, { agent }] of all.entries()) agent.exit({ exitCode: nth })
      await fleet.cancel(cancelled.execution.id)
      await beSilentForLong(world(), silent.execution.id)
      await expect.poll(() => Date.now()).toBeGreaterThan((late.execution.hardDeadlineAt as Date).getTime())
      const second = await world().startWorker({ patience: { ...BRIEF, overdueMs: 60_000 } })
      for (const [nth, { execution }] of all.entries()) {
        const end = nth === 0 ? { status: 'succeeded' } : { status: 'failed', reason: 'error' }
        expect(await endOf(world(), execution)).toMatchObject({ ...end, exitCode: nth })
      }
      await second.stop()
    })

    test('an agent that was stopped before is known to have been, by whoever comes next', async () => {
      const { fleet, provider } = world()
      const first = await world().startWorker({ patience: BRIEF })
      const { execution, agent } = await work(world())
      agent.isStubborn = true
      await fleet.cancel(execution.id)
      await expect.poll(() => provider.count('stopAgent')).toBeGreaterThan(0)
      await first.stop()
      agent.exit({ exitCode: 0 })
      const second = await world().startWorker({ patience: BRIEF })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', exitCode: 0 })
      await second.stop()
    })
  },
  { worker: false, stores: ['postgres'] },
)
