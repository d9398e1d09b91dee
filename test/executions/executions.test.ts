import { expect, test } from 'vitest'
import { describeWorld } from '../support/describe-world.ts'
import { BRIEF, describeExecutions, endOf, textOf, work } from './setup.ts'

const LONG = { wait: '30s' }

describeExecutions(
  'an execution',
  (world) => {
    test.each([
      [{ exitCode: 0 }, { status: 'succeeded', reason: 'completed', exitCode: 0 }],
      [
        { exitCode: 3 },
        { status: 'failed', reason: 'error', exitCode: 3, message: 'The agent ended with exit code 3.' },
      ],
      [{ signal: 'SIGSEGV' }, { status: 'failed', reason: 'signal', exitCode: 139 }],
      [
        { signal: 'SIGKILL', oomKilled: true },
        { status: 'failed', reason: 'oom_killed', exitCode: 137 },
      ],
      [
        { exitCode: 137, oomKilled: true },
        { status: 'failed', reason: 'oom_killed', exitCode: 137 },
      ],
    ] as const)('of an agent that ends with %o is %o, with all that it printed', async (end, expected) => {
      const { execution, agent } = await work(world())
      agent.write('working\n')
      agent.exit(end)
      expect(await endOf(world(), execution)).toMatchObject({ ...expected, outputBytes: 8, truncated: false })
      expect(await textOf(world(), execution.id)).toBe('working\n')
    })

    test('without a command follows the agent that the sandbox was made with, from its first byte', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running({ agent: { command: ['agent'] } })
      provider.agentOf(id).write('before ')
      const { execution } = await fleet.execute(id)
      expect(execution).toMatchObject({ status: 'queued', command: null })
      provider.agentOf(id).write('after')
      provider.agentOf(id).exit({ exitCode: 1 })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', exitCode: 1 })
      expect(await textOf(world(), execution.id)).toBe('before after')
      // It has ended; whoever follows it later is told the same.
      const again = await fleet.execute(id, LONG)
      expect(again.execution).toMatchObject({ status: 'failed', exitCode: 1, outputBytes: 12 })
    })

    test('without a command in a sandbox without an agent says what is missing', async () => {
      const { execution } = await world().fleet.execute((await world().running()).id, LONG)
      expect(execution).toMatchObject({
        status: 'failed',
        reason: 'error',
        message: expect.stringContaining('a command'),
      })
    })

    test('several run in one sandbox at a time, each with its own output and end', async () => {
      const sandbox = await world().running()
      const all = await Promise.all(Array.from({ length: 5 }, () => work(world(), { sandbox })))
      for (const [nth, { agent }] of all.entries()) {
        agent.write(`agent ${nth}`)
        agent.exit({ exitCode: nth })
      }
      for (const [nth, { execution }] of all.entries()) {
        expect(await endOf(world(), execution)).toMatchObject({ exitCode: nth })
        expect(await textOf(world(), execution.id)).toBe(`agent ${nth}`)
      }
    })

    test('is found by its id, in the list of its sandbox and in the list of all, the newest first', async () => {
      const { fleet } = world()
      const first = await work(world())
      const second = await work(world(), { sandbox: first.sandbox })
      const ids = async (request: Parameters<typeof fleet.executions>[0]) =>
        (await fleet.executions(request)).items.map(({ id }) => id)
      const sandboxId = first.sandbox.id
      expect(await ids({ sandboxId })).toEqual([second.execution.id, first.execution.id])
      expect((await ids({ limit: 2 })).toSorted()).toEqual([first.execution.id, second.execution.id].toSorted())
      const { items, nextCursor } = await fleet.executions({ sandboxId, limit: 1 })
      expect(items).toMatchObject([{ id: second.execution.id, status: 'running', startedAt: expect.any(Date) }])
      expect(await ids({ sandboxId, limit: 1, cursor: nextCursor as string })).toEqual([first.execution.id])
      first.agent.exit()
      await endOf(world(), first.execution)
      expect(await ids({ sandboxId, status: 'running' })).toEqual([second.execution.id])
      expect(await fleet.execution(second.execution.id)).toMatchObject({
        execution: { sandboxId, command: ['work'] },
        sandbox: { id: sandboxId, state: 'running' },
      })
      second.agent.exit()
      await endOf(world(), second.execution)
    })

    test('is asked for once, however often with the same key', async () => {
      const { fleet, provider } = world()
      provider.starts = (agent) => agent.exit()
      const { id } = await world().running()
      const asked = { command: ['once'], idempotencyKey: `execute-${id}` }
      const all = await Promise.all(Array.from({ length: 10 }, () => fleet.execute(id, asked)))
      expect(new Set(all.map(({ execution }) => execution.id)).size).toBe(1)
      const reused = { code: 'idempotency_key_reused' }
      await expect(fleet.execute(id, { ...asked, command: ['twice'] })).rejects.toMatchObject(reused)
      await expect(fleet.execute(id, { ...asked, deadline: '5m' })).rejects.toMatchObject(reused)
      await expect(fleet.execute(id, { ...asked, silence: '5m' })).rejects.toMatchObject(reused)
      await expect(fleet.pause(id, { idempotencyKey: asked.idempotencyKey })).rejects.toMatchObject(reused)
      await endOf(world(), all[0]?.execution as { id: string })
      await fleet.pause(id, { ...LONG, idempotencyKey: `pause-${id}` })
      await expect(fleet.execute(id, { idempotencyKey: `pause-${id}` })).rejects.toMatchObject(reused)
      expect(provider.count('startAgent')).toBeGreaterThan(0)
    })

    test('what is not there, or cannot be read, is said clearly', async () => {
      const { fleet } = world()
      const nobody = { code: 'execution_not_found' }
      for (const id of ['nonsense', `exe_${'0'.repeat(26)}`, '\0']) {
        await expect(fleet.execution(id)).rejects.toMatchObject(nobody)
        await expect(fleet.cancel(id)).rejects.toMatchObject(nobody)
        await expect(textOf(world(), id)).rejects.toMatchObject(nobody)
      }
      await expect(fleet.execute(`sbx_${'0'.repeat(26)}`)).rejects.toMatchObject({ code: 'sandbox_not_found' })
      const { id } = await world().running()
      const invalid = (message: string) => ({ code: 'request_invalid', message: expect.stringContaining(message) })
      await expect(fleet.execute(id, { command: [] })).rejects.toMatchObject(invalid('command'))
      await expect(fleet.execute(id, { deadline: 'soon' })).rejects.toMatchObject(invalid('deadline'))
      await expect(fleet.execute(id, { outputBytesMax: 0 })).rejects.toMatchObject(invalid('outputBytesMax'))
      await expect(textOf(world(), `exe_${'0'.repeat(26)}`, -1)).rejects.toMatchObject(invalid('from'))
    })

    test('a start whose answer is lost starts the agent once', async () => {
      const { provider } = world()
      provider.next('startAgent', { kind: 'cut', performed: true }, { kind: 'status', status: 503 })
      let started = 0
      provider.starts = (agent) => {
        started++
        agent.exit()
      }
      const { execution } = await world().fleet.execute((await world().running()).id, { command: ['x'], ...LONG })
      expect(execution.status).toBe('succeeded')
      expect(started).toBe(1)
    })

    test.each(['quota_exceeded', 'rate_limited'] as const)(
      'an agent that was started by a call whose answer is lost is followed, also when no other may start (%s)',
      async (type) => {
        const { provider, fleet } = world()
        provider.next('startAgent', { kind: 'cut', performed: true })
        provider.always('startAgent', { kind: 'error', type, message: 'no more of them' })
        provider.starts = (agent) => agent.exit()
        const { execution } = await fleet.execute((await world().running()).id, { command: ['x'], ...LONG })
        expect(execution).toMatchObject({ status: 'succeeded', exitCode: 0 })
      },
    )

    test('a command that cannot be started says why, after as many tries as there may be breaks', async () => {
      const { provider, fleet } = world()
      const before = provider.count('startAgent')
      provider.always('startAgent', { kind: 'error', type: 'rate_limited', message: 'not so fast' })
      const { execution } = await fleet.execute((await world().running()).id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'failed', reason: 'error' })
      expect(execution.message).toContain('not so fast')
      expect(provider.count('startAgent')).toBe(before)
    })

    test('a command that its provider will never start fails with its words', async () => {
      const { provider, fleet } = world()
      provider.next('startAgent', { kind: 'error', type: 'spec_invalid', message: 'no such program' })
      const { execution } = await fleet.execute((await world().running()).id, { command: ['x'], ...LONG })
      expect(execution).toMatchObject({ status: 'failed', reason: 'error' })
      expect(execution.message).toContain('no such program')
    })
  },
  { stores: ['redis'] },
)

describeExecutions(
  'an execution that is cancelled',
  (world) => {
    test('has its agent stopped, and ends when that was seen to have ended, with its exit code', async () => {
      const { fleet } = world()
      const { execution, agent } = await work(world())
      agent.write('half')
      const cancelled = await fleet.cancel(execution.id, LONG)
      expect(cancelled.execution).toMatchObject({ status: 'cancelled', reason: 'cancelled', exitCode: 143 })
      expect(agent.status).toMatchObject({ is: 'terminated' })
      expect(await textOf(world(), execution.id)).toBe('half')
      const again = await fleet.cancel(execution.id)
      expect(again.execution).toEqual(cancelled.execution)
    })

    test('is not said to have ended as long as its agent runs', async () => {
      const { fleet, provider } = world()
      const { execution, agent } = await work(world())
      agent.isStubborn = true
      const asked = provider.count('stopAgent')
      const { execution: asking } = await fleet.cancel(execution.id)
      expect(asking).toMatchObject({ status: 'running', cancelRequestedAt: expect.any(Date) })
      await expect.poll(() => provider.count('stopAgent'), { timeout: 20_000 }).toBeGreaterThan(asked + 2)
      expect((await fleet.execution(execution.id)).execution.status).toBe('running')
      agent.exit({ exitCode: 9 })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', exitCode: 9 })
    })

    test('before it has begun ends at once, and nothing is ever started', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      const held = provider.holdAt('resume')
      const { execution } = await fleet.execute(id, { command: ['x'] })
      await held.entered(1)
      const cancelled = await fleet.cancel(execution.id)
      expect(cancelled.execution).toMatchObject({ status: 'cancelled', startedAt: null })
      const before = provider.count('startAgent')
      held.open()
      await expect.poll(async () => (await fleet.get(id)).state).toBe('running')
      expect(provider.count('startAgent')).toBe(before)
    })
  },
  { stores: ['redis'] },
)

describeExecutions(
  'a deadline',
  (world) => {
    test('stops the agent, and the execution fails when that was seen to have ended', async () => {
      const { execution, agent } = await work(world(), { deadline: '1s' })
      agent.write('x')
      expect(await endOf(world(), execution)).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        exitCode: 143,
      })
      expect(agent.hasEnded).toBe(true)
    })

    test('of silence counts from the last byte', async () => {
      const { execution, agent } = await work(world(), { silence: '1s' })
      agent.write('the last word')
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'deadline_exceeded' })
      expect(await textOf(world(), execution.id)).toBe('the last word')
    })

    test('ends an execution, too, whose agent cannot be stopped or seen, and says so', async () => {
      const { provider } = world()
      const { execution } = await work(world(), { deadline: '1s' })
      provider.always('agentStatus', { kind: 'status', status: 503 })
      provider.always('attach', { kind: 'status', status: 503 })
      const ended = await endOf(world(), execution)
      expect(ended).toMatchObject({ status: 'failed', reason: 'deadline_exceeded' })
      expect(ended.message).toContain('nobody can say whether its agent still runs')
      expect(ended.endedAt?.getTime()).toBeGreaterThanOrEqual(
        (ended.hardDeadlineAt as Date).getTime() + BRIEF.overdueMs,
      )
    })

    test('of one that never began passes all the same', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      const held = provider.holdAt('resume')
      const { execution } = await fleet.execute(id, { command: ['x'], deadline: '1s' })
      await held.entered(1)
      await expect
        .poll(() => Date.now(), { timeout: 5_000 })
        .toBeGreaterThan((execution.hardDeadlineAt as Date).getTime())
      held.open()
      expect(await endOf(world(), execution)).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        startedAt: null,
      })
    })
  },
  { stores: ['redis'] },
)

describeWorld(
  'an execution whose provider takes long to start an agent',
  (world) => {
    test('an agent whose start is on its way for long is followed, also when the next try is refused and shows none', async () => {
      const { provider, fleet } = world()
      const late = provider.holdOnceAt('startAgent')
      provider.starts = (agent) => {
        agent.write('late')
        agent.exit()
      }
      const { execution } = await fleet.execute((await world().running()).id, { command: ['x'] })
      await late.entered(1)
      const before = provider.count('agentStatus')
      provider.always('startAgent', { kind: 'error', type: 'quota_exceeded', message: 'no more of them' })
      await expect.poll(() => provider.count('agentStatus')).toBeGreaterThan(before + 1)
      provider.heal() // what is held would be refused as well
      late.open()
      const { execution: ended } = await fleet.execution(execution.id, LONG)
      expect(ended).toMatchObject({ status: 'succeeded', exitCode: 0, outputBytes: 4 })
    })
  },
  { stores: ['postgres'], patience: { ...BRIEF, breaksMax: 200, callMs: { ...BRIEF.callMs, start_agent: 300 } } },
)
