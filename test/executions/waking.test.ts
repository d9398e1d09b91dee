import { expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import type { World } from '../support/world.ts'
import { describeExecutions, endOf, textOf, work } from './setup.ts'

const LONG = { wait: '30s' }

describeExecutions(
  'an execution that is asked for',
  (world) => {
    const startsAndSays = (text: string) => {
      world().provider.starts = (agent) => {
        agent.write(text)
        agent.exit()
      }
    }

    test('of a sandbox that sleeps wakes it first: one call', async () => {
      startsAndSays('good morning')
      const { id } = await world().suspended()
      const { execution, sandbox } = await world().fleet.execute(id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'succeeded', wakeOperationId: expect.stringMatching(/^op_/) })
      expect(sandbox).toMatchObject({ id, state: 'running' })
      expect(await textOf(world(), execution.id)).toBe('good morning')
    })

    test('of a sandbox that sleeps is refused, if it is not to be woken', async () => {
      const { id } = await world().suspended()
      await expect(world().fleet.execute(id, { ifSuspended: 'refuse' })).rejects.toMatchObject({
        code: 'execution_refused',
        details: { errorType: 'sandbox_suspended' },
      })
      expect((await world().fleet.get(id)).state).toBe('suspended')
      expect((await world().fleet.executions({ sandboxId: id })).items).toEqual([])
    })

    test('fifty at once of a sandbox that sleeps wake it once, and all of them run', async () => {
      startsAndSays('x')
      const { id, providerRef } = await world().suspended()
      const before = world().provider.count('resume', providerRef as string)
      const all = await Promise.all(
        Array.from({ length: 50 }, () => world().fleet.execute(id, { command: ['x'], ...LONG })),
      )
      expect(all.map(({ execution }) => execution.status)).toEqual(all.map(() => 'succeeded'))
      expect(world().provider.count('resume', providerRef as string)).toBe(before + 1)
    })

    test('while its sandbox is on its way to sleep wakes it when it is there', async () => {
      startsAndSays('x')
      const { fleet, provider } = world()
      const { id } = await world().running()
      const held = provider.holdAt('suspend')
      const pausing = fleet.pause(id, LONG)
      await held.entered(1)
      const executing = fleet.execute(id, { command: ['x'], ...LONG })
      const refusing = fleet.execute(id, { command: ['x'], ifSuspended: 'refuse', ...LONG })
      await expect.poll(async () => (await fleet.executions({ sandboxId: id })).items.length).toBe(2)
      held.open()
      expect((await pausing).operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect((await executing).execution.status).toBe('succeeded')
      // Whether it found it asleep, or awake again for the other one: it never woke it.
      expect((await refusing).execution.wakeOperationId).toBeNull()
    })

    test('while its sandbox is being made runs when it is', async () => {
      startsAndSays('x')
      const { fleet, provider } = world()
      const held = provider.holdAt('create')
      const { sandbox } = await fleet.spawn({ backend: 'test' })
      await held.entered(1)
      const executing = fleet.execute(sandbox.id, { command: ['x'], ...LONG })
      held.open()
      expect((await executing).execution.status).toBe('succeeded')
    })

    test('of a sandbox that cannot be woken fails with why, and the sandbox is where it was', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.always('resume', { kind: 'status', status: 503 })
      const { execution, sandbox } = await fleet.execute(id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'failed', reason: 'error', startedAt: null })
      expect(execution.message).toContain('sandbox_unreachable')
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
      expect((await fleet.operation(execution.wakeOperationId as string)).operation.status).toBe('failed')
    })

    test('of a sandbox that is gone is refused, and says how to run it all the same', async () => {
      const { fleet } = world()
      const { id } = await world().running()
      await fleet.kill(id, LONG)
      await expect(fleet.execute(id, { command: ['x'] })).rejects.toMatchObject({
        code: 'execution_refused',
        message: expect.stringContaining('respawn'),
        details: { errorType: 'sandbox_gone' },
      })
    })
  },
  { stores: ['postgres'] },
)

describeExecutions(
  'with ifLost respawn, a message to a lost thread does not fail for ever:',
  (world) => {
    const LOST = { command: ['x'], ifLost: 'respawn' as const, ...LONG }

    test('one that is gone is replaced, and the execution runs there', async () => {
      const { fleet, provider } = world()
      provider.starts = (agent) => agent.exit()
      const before = await world().running({ agentThreadId: 'thread' })
      await fleet.kill(before.id, LONG)
      const { execution, sandbox } = await fleet.execute(before.id, LOST)
      expect(execution.status).toBe('succeeded')
      expect(sandbox).toMatchObject({ id: before.id, state: 'running', agentThreadId: null })
      expect(sandbox.providerRef).not.toBe(before.providerRef)
    })

    test('one that sleeps on nothing is replaced, and the execution runs there', async () => {
      const { fleet, provider } = world()
      provider.starts = (agent) => agent.exit()
      const before = await world().suspended({ agentThreadId: 'thread' })
      provider.checkpoints.clear()
      const { execution, sandbox } = await fleet.execute(before.id, LOST)
      expect(execution.status).toBe('succeeded')
      expect(sandbox).toMatchObject({ state: 'running', agentThreadId: null })
      const { operation } = await fleet.operation(execution.wakeOperationId as string)
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
    })

    test('one that is said to run, and is not there any more, is replaced as well', async () => {
      const { fleet, provider } = world()
      provider.starts = (agent) => agent.exit()
      const before = await world().running()
      provider.instances.delete(before.providerRef as string)
      const { execution, sandbox } = await fleet.execute(before.id, LOST)
      expect(execution.status).toBe('succeeded')
      expect(sandbox.providerRef).not.toBe(before.providerRef)
    })

    test('without it, the execution fails, and the sandbox is known to be gone', async () => {
      const { fleet, provider } = world()
      const before = await world().running()
      provider.instances.delete(before.providerRef as string)
      const { execution, sandbox } = await fleet.execute(before.id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'expired' })
    })

    test('one that its provider has put to sleep by itself is woken', async () => {
      const { fleet, provider } = world()
      provider.starts = (agent) => agent.exit()
      const { id, providerRef } = await world().running()
      const instance = provider.instances.get(providerRef as string)
      Object.assign(instance as object, { state: 'suspended', checkpointRef: 'by-itself' })
      provider.checkpoints.set('by-itself', { ref: 'by-itself', of: providerRef as string, condition: 'ready' })
      const { execution } = await fleet.execute(id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'succeeded', wakeOperationId: expect.any(String) })
    })

    test('one that is lost again and again is not replaced for ever', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const before = provider.count('create')
      provider.runs = () => {
        queueMicrotask(() => provider.instances.clear())
        return { exitCode: 0, output: 'awake\n' }
      }
      provider.instances.clear()
      const { execution } = await fleet.execute(id, LOST)
      expect(execution).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      expect(execution.message).toContain('5 times')
      expect(provider.count('create') - before).toBe(5)
    })

    test('one that somebody destroys meanwhile stays destroyed, and the execution is cancelled', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      const held = provider.holdAt('resume')
      const { execution } = await fleet.execute(id, { command: ['x'], ifLost: 'respawn' })
      await held.entered(1)
      const destroying = fleet.destroy(id, LONG)
      await expect.poll(async () => (await world().operations(id)).at(-1)).toMatchObject({ kind: 'destroy' })
      held.open()
      expect((await destroying).sandbox.state).toBe('gone')
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled' })
      expect((await fleet.get(id)).state).toBe('gone')
    })

    test('a replacement that cannot be made is said, and not tried for ever', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      await fleet.kill(id, LONG)
      provider.always('create', { kind: 'error', type: 'quota_exceeded', message: 'no more of them' })
      const { execution, sandbox } = await fleet.execute(id, LOST)
      expect(execution).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      expect(execution.message).toContain('no more of them')
      expect(sandbox.state).toBe('gone')
    })
  },
  { stores: ['postgres'] },
)

describeExecutions(
  'a sandbox that works',
  (world) => {
    test('is not paused, and says so clearly', async () => {
      const { fleet } = world()
      const { sandbox, execution, agent } = await work(world())
      const { operation } = await fleet.pause(sandbox.id, LONG)
      expect(operation).toMatchObject({
        status: 'refused',
        error: { errorType: 'sandbox_busy', retryable: true, message: expect.stringContaining('if busy') },
      })
      agent.write('still here')
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 10 })
      expect((await fleet.pause(sandbox.id, LONG)).operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
    })

    test('is paused when its executions have ended, if the pause waits', async () => {
      const { fleet, provider } = world()
      const { sandbox, execution, agent } = await work(world())
      const pausing = fleet.pause(sandbox.id, { ifBusy: 'wait', ...LONG })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('pausing')
      agent.write('done')
      expect(provider.count('suspend', sandbox.providerRef as string)).toBe(0)
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', outputBytes: 4 })
      expect(await pausing).toMatchObject({ operation: { status: 'succeeded' }, sandbox: { state: 'suspended' } })
    })

    test.each(['kill', 'destroy', 'resume'] as const)('a pause that waits gives way to a %s', async (verb) => {
      const { fleet } = world()
      const { sandbox, execution, agent } = await work(world())
      const pausing = fleet.pause(sandbox.id, { ifBusy: 'wait', ...LONG })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('pausing')
      expect((await fleet[verb](sandbox.id, LONG)).operation.status).toBe('succeeded')
      expect((await pausing).operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_busy' } })
      if (verb === 'resume') agent.exit()
      expect((await endOf(world(), execution)).status).toBe(verb === 'resume' ? 'succeeded' : 'cancelled')
    })

    test('is paused at once, if the pause interrupts: the command is stopped first, and its execution cancelled', async () => {
      const { fleet } = world()
      const { sandbox, execution, agent } = await work(world())
      agent.write('half')
      const { operation, sandbox: after } = await fleet.pause(sandbox.id, { ifBusy: 'interrupt', ...LONG })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(after.state).toBe('suspended')
      expect(agent.hasEnded).toBe(true)
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', exitCode: 143, outputBytes: 4 })
    })

    test('is not killed, either, where that is what a pause would do, before its executions have ended', async () => {
      const { fleet, provider } = world()
      const sandbox = await world().running({ backend: 'plain' })
      const { execution, agent } = await work(world(), { sandbox })
      const kill = { ifUnsupported: 'kill', ...LONG } as const
      expect((await fleet.pause(sandbox.id, kill)).operation.error?.errorType).toBe('sandbox_busy')
      const waiting = fleet.pause(sandbox.id, { ...kill, ifBusy: 'wait' })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('killing')
      const resumed = await fleet.resume(sandbox.id, LONG)
      expect(resumed.operation.status).toBe('succeeded')
      expect((await waiting).operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_busy' } })
      const again = fleet.pause(sandbox.id, { ...kill, ifBusy: 'wait' })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('killing')
      agent.exit()
      expect((await again).sandbox).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported' })
      expect((await endOf(world(), execution)).status).toBe('succeeded')
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })

    test('its own agent sleeps with it, and the execution that followed it has ended', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running({ agent: { command: ['agent'] } })
      const { execution } = await fleet.execute(id)
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.status).toBe('running')
      expect((await fleet.pause(id, LONG)).operation.error?.errorType).toBe('sandbox_busy')
      await fleet.pause(id, { ifBusy: 'interrupt', ...LONG })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', reason: 'cancelled' })
      expect(provider.agentOf(id).hasEnded).toBe(false)
    })

    test('is paused when all has ended that was asked for before, also what had not begun by then', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const held = provider.holdOnceAt('look')
      const { execution } = await fleet.execute(id, { command: ['x'] })
      await held.entered(1) // it is about to begin
      const pausing = fleet.pause(id, { ifBusy: 'wait', ...LONG })
      await expect.poll(async () => (await fleet.get(id)).state).toBe('pausing')
      held.open()
      await expect.poll(() => provider.agentKeysOf(id), { timeout: 20_000 }).toEqual([execution.id])
      provider.agentOf(id, execution.id).exit()
      expect(await pausing).toMatchObject({ operation: { status: 'succeeded' }, sandbox: { state: 'suspended' } })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded', wakeOperationId: null })
    })

    test('a pause that waits gives way to another execution, which would otherwise wait as long', async () => {
      const { fleet, provider } = world()
      const { sandbox, execution, agent } = await work(world())
      const pausing = fleet.pause(sandbox.id, { ifBusy: 'wait', ...LONG })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('pausing')
      provider.starts = (another) => another.exit()
      expect((await fleet.execute(sandbox.id, { command: ['x'], ...LONG })).execution.status).toBe('succeeded')
      expect((await pausing).operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_busy' } })
      agent.exit()
      await endOf(world(), execution)
    })

    test('and is lost, or restarted, does not keep a pause that interrupts waiting for it', async () => {
      const { fleet, provider } = world()
      for (const change of [{ state: 'lost' }, { incarnation: 2 }] as const) {
        const { sandbox, execution } = await work(world())
        const ref = sandbox.providerRef as string
        if ('state' in change) provider.instances.delete(ref)
        else Object.assign(provider.instances.get(ref) as object, change)
        const { operation } = await fleet.pause(sandbox.id, { ifBusy: 'interrupt', ...LONG })
        expect(operation).toMatchObject({ attempt: 1, status: 'state' in change ? 'failed' : 'succeeded' })
        expect((await endOf(world(), execution)).status).toBe('failed')
      }
    })

    test.each(['resume', 'pause'] as const)(
      'what is asked behind a snapshot (%s) waits for it, and does not take its place',
      async (verb) => {
        const { fleet, provider } = world()
        const { sandbox, execution, agent } = await work(world())
        const held = provider.holdAt('take')
        const copying = fleet.snapshot(sandbox.id, LONG)
        await held.entered(1)
        const behind = fleet[verb](sandbox.id, LONG)
        await expect.poll(async () => (await world().operations(sandbox.id)).at(-1)?.status).toBe('waiting')
        held.open()
        const { operation } = await copying
        expect(operation).toMatchObject({ status: 'succeeded', attempt: 1 })
        expect(provider.count('suspend', sandbox.providerRef as string)).toBe(0)
        expect((await behind).operation.status).toBe(verb === 'resume' ? 'succeeded' : 'refused')
        agent.exit()
        expect((await endOf(world(), execution)).status).toBe('succeeded')
      },
    )

    test.each(['kill', 'destroy'] as const)('is ended by a %s, and what ran in it is cancelled', async (verb) => {
      const { fleet } = world()
      const { sandbox, execution, agent } = await work(world())
      agent.write('x')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(1)
      await fleet[verb](sandbox.id, LONG)
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', outputBytes: 1 })
    })

    test('and is lost takes its execution with it, and is known to be gone', async () => {
      const { fleet, provider } = world()
      const { sandbox, execution, agent } = await work(world())
      provider.instances.delete(sandbox.providerRef as string)
      agent.stir()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('gone')
    })

    test('and is put to sleep by its provider takes its execution with it', async () => {
      const { sandbox, execution, agent } = await work(world())
      putToSleep(world(), sandbox)
      agent.stir()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'instance_lost' })
    })

    test('and is put to sleep by its provider has lost its execution, and nobody has cancelled it, when a snapshot finds that out', async () => {
      const { fleet } = world()
      const { sandbox, execution } = await work(world())
      putToSleep(world(), sandbox)
      expect((await fleet.snapshot(sandbox.id, LONG)).sandbox.state).toBe('suspended')
      expect(await endOf(world(), execution)).toMatchObject({
        status: 'failed',
        reason: 'instance_lost',
        message: 'Its sandbox was put to sleep by its provider.',
      })
    })

    test('and is restarted by its provider takes its execution with it', async () => {
      const { provider } = world()
      const { sandbox, execution, agent } = await work(world())
      Object.assign(provider.instances.get(sandbox.providerRef as string) as object, { incarnation: 2 })
      agent.stir()
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'agent_restarted' })
    })

    test('is copied while it works, and what is asked for meanwhile begins when that is over', async () => {
      const { fleet, provider } = world()
      const { sandbox, execution, agent } = await work(world())
      const held = provider.holdAt('take')
      const copying = fleet.snapshot(sandbox.id, LONG)
      await held.entered(1)
      agent.exit()
      expect((await endOf(world(), execution)).status).toBe('succeeded')
      provider.starts = (later) => later.exit()
      const { execution: later } = await fleet.execute(sandbox.id, { command: ['x'] })
      expect((await fleet.execution(later.id)).execution.status).toBe('queued')
      held.open()
      expect((await copying).operation.status).toBe('succeeded')
      expect((await endOf(world(), later)).status).toBe('succeeded')
    })
  },
  { stores: ['postgres'] },
)

/** As its provider does it by itself. */
function putToSleep({ provider }: World, { providerRef }: Sandbox): void {
  const of = providerRef as string
  const checkpointRef = 'by-itself'
  Object.assign(provider.instances.get(of) as object, { state: 'suspended', incarnation: 2, checkpointRef })
  provider.checkpoints.set(checkpointRef, { ref: checkpointRef, of, condition: 'ready' })
}
