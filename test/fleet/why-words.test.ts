import { describe, expect, test } from 'vitest'
import { printWhy } from '../../src/cli/why.ts'
import type { EventRow, ExecutionRow, FindingRow, OperationRow, SandboxRow } from '../../src/db/schema.ts'
import { tellWhy } from '../../src/fleet/why.ts'
import type { Cause } from '../../src/sandbox/causes.ts'
import { EXECUTION_REASONS } from '../../src/sandbox/executions.ts'
import { FAILURES, type FailureType, failure } from '../../src/sandbox/failures.ts'
import { FINDINGS, type FindingKind } from '../../src/sandbox/findings.ts'
import { KINDS } from '../../src/sandbox/judge.ts'
import { LIMIT_NAMES } from '../../src/sandbox/limits.ts'
import { ENTRIES, GONE_REASONS, moveBetween, STATES, TRANSITIONS } from '../../src/sandbox/states.ts'
import { AT, expectWords, LOOKS } from './why-setup.ts'

describe('there are words for', () => {
  const moves = [
    ...Object.keys(ENTRIES).map((to) => [null, to] as const),
    ...Object.entries(TRANSITIONS).flatMap(([from, row]) => Object.keys(row).map((to) => [from, to] as const)),
  ] as [EventRow['from_state'], SandboxRow['state']][]

  test.each(moves)('the move from %s to %s, however it went, and whether or not an operation is known', (from, to) => {
    const error = failure('sandbox_unreachable', 'no answer')
    for (const detail of [
      {},
      { status: 'succeeded', outcome: 'done' },
      { outcome: 'respawned' },
      { status: 'failed', error },
    ])
      for (const operations of [[], [anOperation({ attempt: 3, failures: 1, last_error: error })]])
        expectWords(
          of(
            {
              type: moveBetween(from, to) as EventRow['type'],
              from_state: from,
              to_state: to,
              operation_id: 'op_1',
              detail,
            },
            { operations },
          ),
        )
  })

  const others = {
    execution_queued: true,
    execution_started: true,
    execution_ended: true,
    instance_swept: true,
    checkpoint_swept: true,
    checkpoint_lost: true,
  } satisfies Record<Exclude<EventRow['type'], ReturnType<typeof moveBetween>>, true>
  test.each(Object.keys(others) as EventRow['type'][])('the event %s, with and without a detail', (type) => {
    expectWords(of({ type, execution_id: 'exe_1' }))
    const detail = {
      status: 'failed',
      reason: 'error',
      found: 'instance_unowned',
      backend: 'local',
      ref: 'box-1',
      looks: LOOKS,
    }
    expectWords(
      of({ type, execution_id: 'exe_1', detail }, { executions: [{ id: 'exe_1', command: null } as ExecutionRow] }),
    )
  })

  test('a command is told as a shell would have to be given it', () => {
    const execution = { id: 'exe_1', command: ['sh', '-c', 'pwd; ls'] } as ExecutionRow
    const { story } = of({ type: 'execution_queued', execution_id: 'exe_1' }, { executions: [execution] })
    expect(story.at(-1)?.text).toBe("Execution exe_1 was asked for, to run: sh -c 'pwd; ls'.")
  })

  test('an event that only a newer release knows', () => {
    expectWords(of({ type: 'moon_landed' as EventRow['type'], detail: { by_whom: ['us', 'them'] } }))
  })

  test.each(STATES)('being %s, with and without a history', (state) => {
    expectWords(tellWhy({ ...NOTHING, sandbox: aSandbox({ state }) }))
    expectWords(of({ type: 'adopted', to_state: state }, { sandbox: aSandbox({ state }) }))
  })

  test.each(GONE_REASONS)('gone because of %s', (reason) => {
    const sandbox = aSandbox({ state: 'gone', gone_reason: reason })
    const why = of({ type: 'ended', to_state: 'gone', detail: { reason } }, { sandbox })
    expectWords(why)
    expect(why.story[0]?.text).not.toContain('not kept')
    expect(why.answer).not.toContain('not kept')
  })

  test.each(Object.keys(EXECUTION_REASONS))('an execution that ended with %s', (reason) => {
    const why = of({
      type: 'execution_ended',
      execution_id: 'exe_1',
      detail: { status: 'failed', reason, exit_code: 3 },
    })
    expectWords(why)
    expect(why.story[0]?.text).toMatch(/^Execution exe_1 failed with exit code 3: \w/)
  })

  test.each(Object.keys(FAILURES) as FailureType[])('the failure %s', (type) => {
    const detail = { status: 'failed', error: failure(type, 'so it was said.') }
    const why = of(
      { type: 'pause_failed', to_state: 'running', operation_id: 'op_1', detail },
      { operations: [anOperation()] },
    )
    expectWords(why)
    expect(why.story[0]?.text).toContain(`The pause failed as ${type.replaceAll('_', ' ')}: so it was said.`)
  })

  const causes: (Cause | null)[] = [
    null,
    ...LIMIT_NAMES.flatMap((limit) =>
      (['sandbox', 'fleet'] as const).map((of): Cause => ({ by: 'reaper', limit, since: AT, limit_ms: 1_000, of })),
    ),
    ...Object.keys(FINDINGS).map(
      (found): Cause => ({ by: 'sweeper', found: found as FindingKind, ref: 'box-1', looks: LOOKS }),
    ),
    { by: 'execution', execution_id: 'exe_1' },
  ]
  test.each(causes)('whoever asks for anything: %j', (cause) => {
    const options = [
      {},
      { only: 'lost', if_lost: 'respawn', if_unsupported: 'kill', adopt: { ref: 'box-1' }, name: 'copy' },
    ]
    for (const kind of KINDS)
      for (const given of options) {
        const operation = anOperation({ kind, cause, options: given as OperationRow['options'] })
        const why = of({ type: 'pause_began', to_state: 'pausing', operation_id: 'op_1' }, { operations: [operation] })
        expectWords(why)
        if (cause?.by === 'sweeper')
          expect(why.story[0]?.text).toContain('Look 2, on 2026-03-01 12:02:00Z at here: asked for')
      }
  })

  test.each(Object.keys(FINDINGS) as FindingKind[])('a suspicion of %s', (kind) => {
    const finding = {
      kind,
      ref: 'box-1',
      backend: 'local',
      looks: LOOKS,
      first_seen_at: new Date(AT),
      look_at: new Date(AT),
    }
    const why = tellWhy({ ...NOTHING, findings: [{ ...finding, acted_at: null } as FindingRow] })
    expectWords(why)
    expect(why.story).toHaveLength(1)
  })

  test('what was seen at a provider, also what nobody has thought of yet', () => {
    const evidence = {
      seen: 'lost: its disk is full',
      checkpoint: { ref: 'tar-1', is: 'corrupt', why: 'it is cut off.' },
      lease: { asked_ms: 5_400_000, ends_at: '2026-03-01T13:30:00.000Z' },
      lingering: 'a timeout',
      preview: 'backend local has no address for port 80',
      left_over: 'an instance',
      lost: 'it was deleted',
      put_back: 'it hangs',
      moon_phase: { is_full: true, nth: [1, 2], seen_by: null },
    }
    const why = of({ type: 'resumed', to_state: 'running', detail: { evidence, checkpoint_id: 'ckpt_1' } })
    expectWords(why)
    expect(why.story[0]?.text.replaceAll('. ', '.\n')).toMatchInlineSnapshot(`
      "It is awake.
      Its checkpoint is ckpt_1.
      Its provider showed it lost: its disk is full.
      The checkpoint tar-1 was seen to be corrupt: it is cut off.
      Its time-to-live was set to 1 hour and 30 minutes, and its provider ends it on 2026-03-01 13:30:00Z.
      What lingered in it could not be ended: a timeout.
      It has no preview: backend local has no address for port 80.
      Something of it may be left over: an instance.
      It had been lost: it was deleted.
      It could not be put back to sleep: it hangs.
      Moon phase: is full true, nth 1, 2, seen by nothing."
    `)
  })

  test('sizes and times, as people say them', () => {
    const said = (bytes: number, ms: number) => {
      const evidence = { checkpoint: { ref: 'tar-1', is: 'ready', sizeBytes: bytes }, lease: { asked_ms: ms } }
      const [{ text } = { text: '' }] = of({ type: 'resumed', detail: { evidence } }).story
      return [/whole \((.*?)\)/, /set to (.*?),/].map((pattern) => pattern.exec(text)?.[1])
    }
    expect(said(0, 0)).toEqual([undefined, 'no time'])
    expect(said(1, 1)).toEqual(['1 byte', '1 millisecond'])
    expect(said(1_536, 900_000)).toEqual(['1.5 KiB', '15 minutes'])
    expect(said(2 ** 31, 7_200_000)).toEqual(['2 GiB', '2 hours'])
    expect(said(2 ** 52, 90_061_001)).toEqual(['4096 TiB', '1 day and 1 hour'])
  })
})

test('what a provider has said moves no cursor and begins no line', () => {
  const error = failure('internal', 'first\nsecond \u001b[2J third...')
  const why = of(
    { type: 'pause_failed', to_state: 'running', operation_id: 'op_1', detail: { error } },
    { operations: [anOperation()] },
  )
  expect(why.story[0]?.text).toContain('failed as internal: first second [2J third.')
  expect(printWhy(why).split('\n')).toHaveLength(3)
})

const NOTHING = { sandbox: aSandbox(), checkpoint: undefined, events: [], operations: [], executions: [], findings: [] }

function aSandbox(given: Partial<SandboxRow> = {}): SandboxRow {
  const at = new Date('2026-03-01T12:00:00Z')
  const rest = { suspended_at: null, gone_reason: null, operation_id: null, waiting: 0, open_executions: 0 }
  return { id: 'sbx_1', state: 'running', state_changed_at: at, ...rest, ...given } as SandboxRow
}

function anOperation(given: Partial<OperationRow> = {}): OperationRow {
  const at = new Date(AT)
  const rest = { cause: null, options: {}, attempt: 1, failures: 0, last_error: null, created_at: at, started_at: at }
  return { id: 'op_1', kind: 'pause', ...rest, ...given } as OperationRow
}

/** What is told when this is all that has happened. */
function of(event: Partial<EventRow>, known: Partial<Parameters<typeof tellWhy>[0]> = {}) {
  const rest = {
    at: new Date(AT),
    from_state: null,
    to_state: null,
    operation_id: null,
    execution_id: null,
    detail: {},
  }
  return tellWhy({ ...NOTHING, events: [{ ...rest, ...event } as EventRow], ...known })
}
