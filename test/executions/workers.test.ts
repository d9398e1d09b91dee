import { expect, onTestFinished, test } from 'vitest'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { streamsQueue } from '../../src/queues/streams.ts'
import { forkWorker } from '../support/crash.ts'
import { administer } from '../support/database.ts'
import type { World } from '../support/world.ts'
import { BRIEF, describeExecutions, endOf, textOf, work } from './setup.ts'

describeExecutions(
  'a worker',
  (world) => {
    test('that is stopped hands its executions over at once, and another goes on from the same byte', async () => {
      const { fleet, provider } = world()
      // It would have ten minutes for it.
      const first = await world().startWorker({ patience: BRIEF, graceMs: 600_000 })
      const all = await Promise.all(Array.from({ length: 20 }, () => work(world())))
      for (const { agent } of all) agent.write('first, ')
      for (const { execution } of all)
        await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(7)
      const second = await world().startWorker({ patience: BRIEF })
      const attached = provider.count('attach')
      await first.stop()
      expect(first.events.count('job.handed_back')).toBeGreaterThanOrEqual(20)
      await second.events.until('execution.followed', 20)
      await expect.poll(() => provider.count('attach')).toBeGreaterThanOrEqual(attached + 20)
      for (const { agent } of all) {
        agent.write('second')
        agent.exit()
      }
      for (const { execution } of all) {
        expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
        expect(await textOf(world(), execution.id)).toBe('first, second')
      }
      expect(second.events.count('job.failed')).toBe(0)
      await second.stop()
    })

    test('that is killed loses its executions to another, without a gap and without a failure', async () => {
      const { fleet } = world()
      const first = await forkWorker(world(), { patience: BRIEF })
      const all = await Promise.all(Array.from({ length: 10 }, () => work(world())))
      for (const { agent } of all) agent.write('before; ')
      for (const { execution } of all)
        await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(8)
      const second = await world().startWorker({ patience: BRIEF })
      first.child.kill('SIGKILL')
      for (const { agent } of all) agent.write('meanwhile; ')
      for (const { execution } of all)
        await expect
          .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes, { timeout: 30_000 })
          .toBe(19)
      for (const { agent } of all) {
        agent.write('after')
        agent.exit()
      }
      for (const { execution } of all) {
        expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
        expect(await textOf(world(), execution.id)).toBe('before; meanwhile; after')
      }
      expect(second.events.count('job.failed')).toBe(0)
      expect((await world().eye.counts()).streams.failed).toBe(0)
      await second.stop()
    })

    test('that is killed before its agent was started, or before it heard that it was, leaves that to another: once', async () => {
      const { provider } = world()
      const started: string[] = []
      for (const fault of [undefined, { kind: 'hang', performed: true } as const]) {
        const first = await forkWorker(world(), { patience: BRIEF })
        const { id } = await world().running()
        provider.starts = (agent) => {
          started.push(...agent.command)
          agent.exit()
        }
        const held = provider.holdOnceAt('startAgent')
        if (fault) provider.next('startAgent', fault)
        const { execution } = await world().fleet.execute(id, { command: [`after ${fault?.kind}`] })
        await held.entered(1)
        if (fault) held.open()
        if (fault) await expect.poll(() => started).toContain('after hang')
        first.child.kill('SIGKILL')
        await first.exited
        const second = await world().startWorker({ patience: BRIEF })
        expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
        await second.stop()
      }
      expect(started).toEqual(['after undefined', 'after hang'])
    })

    test('that pauses and interrupts cancels what has not begun, too, and that does not wake the sandbox again', async () => {
      const { fleet, provider } = world()
      const operating = QUEUE_NAMES.filter((name) => name !== 'streams')
      const first = await world().startWorker({ patience: BRIEF, queues: operating })
      const { id } = await world().running()
      const { execution } = await fleet.execute(id, { command: ['x'] })
      expect(execution.status).toBe('queued')
      expect((await fleet.pause(id, { ifBusy: 'interrupt', wait: '30s' })).sandbox.state).toBe('suspended')
      const second = await world().startWorker({ patience: BRIEF })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', startedAt: null })
      expect((await fleet.get(id)).state).toBe('suspended')
      expect(provider.agentKeysOf(id)).toEqual([])
      await Promise.all([first.stop(), second.stop()])
    })

    test('is told of a pause that has waited by the end it waited for, or by whoever asks for something else', async () => {
      const { fleet } = world()
      const { events, stop } = await world().startWorker({ patience: BRIEF })
      const [ending, killed] = await Promise.all([work(world()), work(world())])
      const pauses = [ending, killed].map(({ sandbox }) => fleet.pause(sandbox.id, { ifBusy: 'wait', wait: '30s' }))
      await expect.poll(async () => (await fleet.get(killed.sandbox.id)).state).toBe('pausing')
      await events.until('job.superseded', 2) // both were looked at, and wait
      ending.agent.exit()
      await fleet.kill(killed.sandbox.id, { wait: '30s' })
      expect((await Promise.all(pauses)).map(({ operation }) => operation.status)).toEqual(['succeeded', 'failed'])
      // Whoever looks for what nobody has heard of was not needed.
      expect(events.count('operation.rung_again')).toBe(0)
      await stop()
    })

    test('goes on counting breaks where another has left off', async () => {
      const { fleet, provider } = world()
      const patient = { ...BRIEF, breaksMax: 1_000_000, breakMs: [1, 1] as const }
      const first = await world().startWorker({ patience: patient })
      provider.breaksStreams = () => ({ afterBytes: 0, how: 'end' })
      const { execution } = await work(world())
      const breaks = async () => (await fleet.execution(execution.id)).execution.breaks
      await expect.poll(breaks).toBeGreaterThan(2 * BRIEF.breaksMax)
      await first.stop()
      const counted = await breaks()
      const second = await world().startWorker({ patience: BRIEF })
      expect(await endOf(world(), execution)).toMatchObject({ reason: 'stream_lost', breaks: counted + 1 })
      await second.stop()
    })

    test('that was stopped in the middle and comes back writes nothing: whoever took over does', async () => {
      const { fleet } = world()
      const frozen = await forkWorker(world(), { patience: BRIEF })
      const { execution, agent } = await work(world())
      agent.write('one ')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(4)
      frozen.child.kill('SIGSTOP')
      const second = await world().startWorker({ patience: BRIEF })
      agent.write('two ')
      await expect
        .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes, { timeout: 30_000 })
        .toBe(8)
      frozen.child.kill('SIGCONT')
      agent.write('three')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(13)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
      expect(await textOf(world(), execution.id)).toBe('one two three')
      const { items } = await fleet.events(execution.sandboxId)
      expect(items.filter(({ type }) => type === 'execution_ended')).toHaveLength(1)
      await second.stop()
    })

    test('tells a pause that waits, too, that what it waits for turned out to be lost', async () => {
      const { fleet, provider } = world()
      const { events, stop } = await world().startWorker({ patience: BRIEF })
      const { id, providerRef } = await world().running()
      const held = provider.holdOnceAt('look')
      const { execution } = await fleet.execute(id, { command: ['x'] })
      await held.entered(1) // it is about to begin
      const pausing = fleet.pause(id, { ifBusy: 'wait', wait: '30s' })
      await expect.poll(async () => (await fleet.get(id)).state).toBe('pausing')
      provider.instances.delete(providerRef as string)
      held.open()
      expect((await pausing).operation.status).toBe('failed')
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      expect(events.count('operation.rung_again')).toBe(0)
      await stop()
    })

    test('that cannot reach its database for longer than a job has attempts does not give up its executions', async () => {
      const { fleet } = world()
      const { stop, events } = await world().startWorker({ patience: BRIEF })
      const { execution, agent } = await work(world())
      agent.write('one ')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(4)
      const allow = (isAllowed: boolean) =>
        administer(`alter database ${databaseOf(world())} allow_connections ${isAllowed}`)
      await allow(false)
      onTestFinished(() => allow(true))
      await cutConnections(world())
      agent.write('two')
      await events.until('execution.set_back', streamsQueue.attemptsMax + 1)
      await allow(true)
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(7)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
      expect(events.count('job.failed')).toBe(0)
      expect(events.count('execution.rung_again')).toBe(0)
      await stop()
    })

    test('that loses its database for a while goes on from what is kept', async () => {
      const { fleet } = world()
      const { stop, events } = await world().startWorker({ patience: BRIEF })
      const { execution, agent } = await work(world())
      agent.write('one ')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(4)
      await cutConnections(world())
      agent.write('two ')
      await cutConnections(world())
      agent.write('three')
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
      expect(await textOf(world(), execution.id)).toBe('one two three')
      expect(events.count('process.crashed')).toBe(0)
      await stop()
    })
  },
  { worker: false, stores: ['redis'] },
)

const databaseOf = ({ place }: World) => new URL(place.databaseUrl).pathname.slice(1)

/** Of every worker, as a restart of the database does. */
const cutConnections = (world: World) =>
  administer(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = '${databaseOf(world)}' and application_name like 'sandman worker%'`)
