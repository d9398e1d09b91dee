import { describe, expect, test } from 'vitest'
import { judge, judgementOf, KINDS, type Kind, type Options, PLACES, type Verdict } from '../../src/sandbox/judge.ts'
import { IN_FLIGHT_STATES, moveBetween, SETTLED_STATES, type SettledState } from '../../src/sandbox/states.ts'

const work = (state: string) => ({ answer: 'work', state })
const alreadyDone = { answer: 'already_done' }
const refused = (because: string) => ({ answer: 'refused', because })

/** The specification's table, once more. */
const EXPECTED: Record<SettledState, Record<Kind, unknown>> = {
  running: {
    spawn: alreadyDone,
    pause: work('pausing'),
    resume: alreadyDone,
    snapshot: work('snapshotting'),
    kill: work('killing'),
    destroy: work('killing'),
  },
  suspended: {
    spawn: alreadyDone,
    pause: alreadyDone,
    resume: work('resuming'),
    snapshot: alreadyDone,
    kill: alreadyDone,
    destroy: work('killing'),
  },
  gone: {
    spawn: refused('sandbox_gone'),
    pause: refused('sandbox_gone'),
    resume: refused('sandbox_gone'),
    snapshot: refused('sandbox_gone'),
    kill: alreadyDone,
    destroy: alreadyDone,
  },
}

const ask = (kind: Kind, options: Options = {}) => ({ kind, options })

test.each(SETTLED_STATES.flatMap((state) => KINDS.map((kind) => ({ state, kind }))))(
  '$kind of a sandbox that is $state',
  ({ state, kind }) => {
    expect(judge(ask(kind), state, { able: true, busy: false })).toEqual(EXPECTED[state][kind])
  },
)

test.each(IN_FLIGHT_STATES.flatMap((state) => KINDS.map((kind) => ({ state, kind }))))(
  '$kind while it is $state',
  ({ state, kind }) => {
    const isNonsense = kind === 'snapshot' && (state === 'pausing' || state === 'killing')
    const expected = isNonsense
      ? PLACES.map(() => refused('invalid_transition'))
      : [{ answer: 'join' }, { answer: 'wait' }, refused('rate_limited')]
    expect(PLACES.map((place) => judge(ask(kind), state, { able: true, busy: false }, place))).toEqual(expected)
  },
)

describe('what the caller allows', () => {
  test('a backend that cannot pause is never asked to; it may be ended instead', () => {
    expect(judge(ask('pause'), 'running', { able: false, busy: false })).toEqual(refused('pause_unsupported'))
    expect(judge(ask('pause', { if_unsupported: 'kill' }), 'running', { able: false, busy: false })).toEqual(
      work('killing'),
    )
    expect(judge(ask('pause', { if_unsupported: 'kill' }), 'running', { able: true, busy: false })).toEqual(
      work('pausing'),
    )
    expect(judge(ask('pause', { if_unsupported: 'kill' }), 'gone', { able: false, busy: false })).toEqual(
      refused('sandbox_gone'),
    )
  })

  test('a backend that cannot snapshot says so, and is not ended for it', () => {
    expect(judge(ask('snapshot'), 'running', { able: false, busy: false })).toEqual(refused('snapshot_unsupported'))
    expect(judge(ask('snapshot', { if_unsupported: 'kill' }), 'running', { able: false, busy: false })).toEqual(
      refused('snapshot_unsupported'),
    )
  })

  test('a lost sandbox may be respawned by a resume, and by nothing else', () => {
    for (const kind of KINDS) {
      const ruling = judge(ask(kind, { if_lost: 'respawn' }), 'gone', { able: true, busy: false })
      expect(ruling).toEqual(kind === 'resume' ? work('provisioning') : EXPECTED.gone[kind])
    }
    expect(judge(ask('resume', { if_lost: 'respawn' }), 'suspended', { able: true, busy: false })).toEqual(
      work('resuming'),
    )
  })
})

// Checked by the compiler: `tsc` is what fails here.
test('a misspelt option is none', () => {
  // @ts-expect-error: it is called if_unsupported
  const misspelt: Options = { if_unsuported: 'kill' }
  expect(judge(ask('pause', misspelt), 'running', { able: false, busy: false })).toEqual(refused('pause_unsupported'))
})

test('what the database is given to pick from is what was judged, in every case', () => {
  for (const kind of KINDS) {
    const request = ask(kind)
    const { resting, in_flight } = judgementOf(request, 'sbx_1')
    const same = (written: { answer: string; error?: unknown }, verdict: Verdict) => {
      expect(written.answer).toBe(verdict.answer)
      if (verdict.answer === 'refused') {
        expect(written.error).toMatchObject({ error_type: verdict.because, message: expect.stringContaining('sbx_1') })
      }
    }
    for (const state of SETTLED_STATES) {
      same(resting.able[state], judge(request, state, { able: true, busy: false }))
      same(resting.unable[state], judge(request, state, { able: false, busy: false }))
    }
    for (const state of IN_FLIGHT_STATES) {
      for (const place of PLACES)
        same(in_flight[state][place], judge(request, state, { able: true, busy: false }, place))
    }
  }
})

test('work always begins with a legal move, which has a name', () => {
  for (const kind of KINDS) {
    for (const options of [{}, { if_lost: 'respawn' }, { if_unsupported: 'kill' }] as const) {
      const { resting } = judgementOf(ask(kind, options), 'sbx_1')
      for (const rulings of [resting.able, resting.unable]) {
        for (const state of SETTLED_STATES) {
          const verdict = rulings[state]
          if (verdict.answer !== 'work') continue
          expect(verdict.move).toBeDefined()
          expect(verdict.move).toBe(moveBetween(state, verdict.state))
        }
      }
    }
  }
})
