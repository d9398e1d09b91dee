import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type AgentSeen,
  decideAtStreamEnd,
  STREAM_RULES,
  type StreamEnd,
  WISHES,
} from '../../src/sandbox/stream-end.ts'

const RUNNING: AgentSeen = { is: 'running' }
const dead = (end: Partial<Extract<AgentSeen, { is: 'terminated' }>> = {}): AgentSeen => ({
  is: 'terminated',
  exitCode: null,
  signal: null,
  oomKilled: undefined,
  ...end,
})

/** What is usually so when a stream has ended, and its agent has, too. */
const decide = (seen: Partial<StreamEnd>) =>
  decideAtStreamEnd({
    agent: RUNNING,
    progressed: false,
    breaks: 1,
    breaksMax: 5,
    drained: true,
    undrainable: false,
    wish: undefined,
    wasStopped: false,
    overdue: false,
    moving: false,
    followsOwn: false,
    notStarted: undefined,
    ...seen,
  })
const finished = (seen: Partial<StreamEnd>) => {
  const decision = decide(seen)
  if (decision.action !== 'finish') return decision.action
  const { status, reason, exitCode } = decision.end
  return [status, reason, exitCode, ...(decision.stop ? ['stop'] : [])]
}

describe('when the output has ended', () => {
  test.each([
    [dead({ exitCode: 0 }), ['succeeded', 'completed', 0]],
    [dead({ exitCode: 2 }), ['failed', 'error', 2]],
    [dead({ exitCode: 137 }), ['failed', 'error', 137]],
    [dead({ exitCode: 137, oomKilled: true }), ['failed', 'oom_killed', 137]],
    [dead({ signal: 'SIGKILL', oomKilled: true }), ['failed', 'oom_killed', 137]],
    [dead({ signal: 'SIGKILL', oomKilled: false }), ['failed', 'signal', 137]],
    [dead({ signal: 'SIGTERM' }), ['failed', 'signal', 143]],
    [dead({ signal: 'SIGPIPE' }), ['failed', 'signal', 141]],
    [dead({ signal: 'SIGUSR1' }), ['failed', 'signal', 138]],
    [dead({ signal: 'SIGRTMIN' }), ['failed', 'signal', undefined]],
    [dead(), ['failed', 'error', undefined]],
    [dead({ lost: 'its node is gone' }), ['failed', 'instance_lost', undefined]],
  ] as const)('and the agent is %o, that is the end: %o', (agent, end) => {
    expect(finished({ agent })).toEqual(end)
  })

  test('and the agent is dead, what it has printed last is read first; but not for ever', () => {
    const unread = { agent: dead({ exitCode: 0 }), drained: false }
    expect(finished(unread)).toBe('attach')
    expect(finished({ ...unread, breaks: 500 })).toBe('attach')
    expect(finished({ ...unread, wish: 'cancel', wasStopped: true })).toBe('attach')
    expect(finished({ ...unread, undrainable: true })).toEqual(['succeeded', 'completed', 0])
    expect(finished({ ...unread, overdue: true })).toEqual(['succeeded', 'completed', 0])
    expect(decide({ ...unread, undrainable: true })).toMatchObject({
      end: { message: expect.stringContaining('read') },
    })
  })

  test('and the agent is dead, it has ended by itself unless it was stopped before, whatever is wished', () => {
    for (const wish of ['cancel', 'deadline', 'silence'] as const)
      expect(finished({ agent: dead({ exitCode: 0 }), wish })).toEqual(['succeeded', 'completed', 0])
  })

  test('and the agent runs, it is attached to again, as long as that brings something or is not in vain too often', () => {
    expect(finished({ progressed: true, breaks: 0 })).toBe('attach')
    expect(finished({ breaks: 4 })).toBe('attach')
    expect(finished({ breaks: 5 })).toEqual(['failed', 'stream_lost', undefined, 'stop'])
    expect(finished({ breaks: 50, progressed: true })).toBe('attach')
  })

  test('and there is no instance, or another one, or a restarted agent, nobody waits', () => {
    expect(finished({ agent: { is: 'absent' } })).toEqual(['failed', 'instance_lost', undefined])
    expect(finished({ agent: { is: 'restarted', why: 'It began anew.' } })).toEqual([
      'failed',
      'agent_restarted',
      undefined,
    ])
  })

  test('and nobody can say how the agent is, that is waited for until the deadline is long past', () => {
    const agent: AgentSeen = { is: 'unknown', why: 'the node is lost' }
    expect(finished({ agent, breaks: 500 })).toBe('wait')
    expect(finished({ agent, wish: 'deadline' })).toBe('wait')
    expect(finished({ agent, wish: 'cancel' })).toBe('wait')
    expect(finished({ agent, wish: 'silence', wasStopped: true })).toBe('wait')
    expect(finished({ agent, wish: 'deadline', overdue: true })).toEqual([
      'failed',
      'deadline_exceeded',
      undefined,
      'stop',
    ])
  })

  test('and the sandbox sleeps, or knows of no such agent, what is shown may lag; but not for ever', () => {
    for (const is of ['asleep', 'none'] as const) {
      expect(finished({ agent: { is }, breaks: 4 })).toBe('wait')
      expect(finished({ agent: { is }, breaks: 5 })).toEqual(['failed', 'instance_lost', undefined])
    }
    expect(finished({ agent: { is: 'none' }, breaks: 5, notStarted: 'no' })).toEqual(['failed', 'error', undefined])
    expect(finished({ agent: { is: 'asleep' }, wish: 'cancel' })).toEqual(['failed', 'instance_lost', undefined])
    expect(finished({ agent: { is: 'none' }, followsOwn: true })).toEqual(['failed', 'error', undefined])
  })

  test('and it was to be cancelled, or its deadline has passed, the agent is stopped before it has ended', () => {
    expect(finished({ wish: 'cancel' })).toBe('stop')
    expect(finished({ wish: 'deadline', progressed: true })).toBe('stop')
    expect(finished({ wish: 'silence', progressed: true })).toBe('stop')
    expect(finished({ wish: 'silence', wasStopped: true })).toBe('stop')
    const stopped = { wasStopped: true, agent: dead({ exitCode: 0 }) }
    expect(finished({ ...stopped, wish: 'cancel' })).toEqual(['cancelled', 'cancelled', 0])
    expect(finished({ ...stopped, wish: 'deadline' })).toEqual(['failed', 'deadline_exceeded', 0])
    expect(finished({ ...stopped, wish: 'silence' })).toEqual(['failed', 'deadline_exceeded', 0])
    expect(finished({ wish: 'cancel', agent: { is: 'none' } })).toEqual(['cancelled', 'cancelled', undefined])
    expect(finished({ wish: 'deadline', agent: { is: 'none' } })).toEqual(['failed', 'deadline_exceeded', undefined])
    expect(finished({ wish: 'deadline', overdue: true })).toEqual(['failed', 'deadline_exceeded', undefined, 'stop'])
  })

  test('and an operation pauses or ends its sandbox, that says what became of it', () => {
    for (const agent of [
      dead({ signal: 'SIGKILL' }),
      dead({ exitCode: 137 }),
      { is: 'absent' },
      { is: 'asleep' },
    ] as const)
      expect(finished({ agent, moving: true, breaks: 5 })).toBe('wait')
    expect(finished({ agent: dead({ exitCode: 0 }), moving: true })).toEqual(['succeeded', 'completed', 0])
    expect(finished({ moving: true })).toBe('attach')
  })
})

const anyAgent = fc.oneof(
  fc.constant(RUNNING),
  fc
    .record({
      exitCode: fc.option(fc.integer({ min: 0, max: 255 })),
      signal: fc.option(fc.constantFrom('SIGKILL', 'SIGTERM')),
      oomKilled: fc.constantFrom(true, false, undefined),
    })
    .map(dead),
  fc.constantFrom<AgentSeen>(
    { is: 'absent' },
    { is: 'asleep' },
    { is: 'none' },
    { is: 'restarted', why: 'x' },
    { is: 'unknown', why: 'x' },
  ),
)
const anything = fc.record({
  agent: anyAgent,
  progressed: fc.boolean(),
  breaks: fc.nat({ max: 10 }),
  breaksMax: fc.constant(5),
  drained: fc.boolean(),
  undrainable: fc.boolean(),
  wish: fc.constantFrom(...WISHES, undefined),
  wasStopped: fc.boolean(),
  overdue: fc.boolean(),
  moving: fc.boolean(),
  followsOwn: fc.boolean(),
  notStarted: fc.constantFrom(undefined, 'no'),
})

describe('whatever is so,', () => {
  test('an agent that runs is never said to have ended by itself', () => {
    fc.assert(
      fc.property(anything, (seen) => {
        const decision = decideAtStreamEnd({ ...seen, agent: RUNNING })
        if (decision.action === 'finish') expect(decision).toMatchObject({ end: { status: 'failed' }, stop: true })
      }),
    )
  })

  test('succeeded means exit code 0 of a dead agent whose output was read to its end, or could not be', () => {
    fc.assert(
      fc.property(anything, (seen) => {
        const decision = decideAtStreamEnd(seen)
        if (decision.action !== 'finish' || decision.end.status !== 'succeeded') return
        expect(seen.agent).toMatchObject({ is: 'terminated', exitCode: 0 })
        expect(seen.drained || seen.undrainable || seen.overdue).toBe(true)
      }),
    )
  })

  test('it comes to an end: once nothing brings progress any more and the deadline is long past, it is finished', () => {
    fc.assert(
      fc.property(anything, (seen) => {
        const late = { ...seen, progressed: false, breaks: 5, wish: 'deadline' as const, overdue: true }
        expect(decideAtStreamEnd(late).action).toBe('finish')
      }),
    )
  })

  test('more breaks never take back an end', () => {
    fc.assert(
      fc.property(anything, (seen) => {
        if (decideAtStreamEnd(seen).action !== 'finish') return
        expect(decideAtStreamEnd({ ...seen, breaks: seen.breaks + 1 }).action).toBe('finish')
      }),
    )
  })
})

test('every rule is needed: each decides something that no other rule before it does', () => {
  const deciding = new Set<number>()
  fc.assert(
    fc.property(anything, (seen) => {
      deciding.add(STREAM_RULES.findIndex(({ applies }) => applies(seen)))
    }),
    { numRuns: 5_000, seed: 1 },
  )
  expect([...deciding].sort((a, b) => a - b)).toEqual(STREAM_RULES.map((_rule, nth) => nth))
})
