import { afterAll, beforeAll, expect, test } from 'vitest'
import { KINDS, type Request } from '../../src/sandbox/judge.ts'
import type { SettledState } from '../../src/sandbox/states.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { PROVIDER_RESULTS } from '../support/ledger.ts'
import { isThorough } from '../support/thorough.ts'
import { describeRequest, type Part, type Scenario, type Start, walk } from '../support/walk.ts'

/**
 * Incident E: a kill met a pause, and which of them won depended on a millisecond. Here two and three requests meet in every
 * possible way, and what each is told must be what it would have been told had everybody waited for everybody before.
 */
let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const STARTS: Start[] = ['absent', 'running', 'suspended', 'gone']
const PLAIN = KINDS.map((kind): Request => ({ kind, options: {} }))
const SPAWN: Request = { kind: 'spawn', options: {} }
const WITH_OPTIONS: Request[] = [
  ...PLAIN,
  { kind: 'resume', options: { if_lost: 'respawn' } },
  { kind: 'pause', options: { if_unsupported: 'kill' } },
]

/** Written down again from the specification, and not taken from the code: what a request does, asked of a sandbox that rests. */
const RULES: Record<SettledState, Record<string, string>> = {
  running: {
    spawn: 'already done',
    pause: 'work',
    resume: 'already done',
    snapshot: 'work',
    kill: 'work',
    destroy: 'work',
  },
  suspended: {
    spawn: 'already done',
    pause: 'already done',
    resume: 'work',
    snapshot: 'already done',
    kill: 'already done',
    destroy: 'work',
  },
  gone: {
    spawn: 'sandbox_gone',
    pause: 'sandbox_gone',
    resume: 'sandbox_gone',
    'resume {"if_lost":"respawn"}': 'work',
    snapshot: 'sandbox_gone',
    kill: 'already done',
    destroy: 'already done',
  },
}
const RULES_WITHOUT_PAUSE: Record<string, string> = {
  pause: 'pause_unsupported',
  'pause {"if_unsupported":"kill"}': 'work',
}

function rule(scenario: Scenario, state: SettledState, request: Request): string {
  const rules = scenario.canPause || state !== 'running' ? RULES[state] : { ...RULES[state], ...RULES_WITHOUT_PAUSE }
  return (rules[describeRequest(request)] ?? rules[request.kind]) as string
}

/** Where work leaves a sandbox that the provider has not lost. */
function workLeadsTo(scenario: Scenario, { kind }: Request): SettledState {
  if (kind === 'pause') return scenario.canPause ? 'suspended' : 'gone'
  return kind === 'kill' || kind === 'destroy' ? 'gone' : 'running'
}

/** What everybody is told, and how it ends, when each waits until the one before has settled. */
function oneAfterTheOther(scenario: Scenario, part: Part): { told: string[]; end: SettledState } {
  let state = part.from
  const told: string[] = []
  for (const [index, { request, found, answer, operation }] of part.answers.entries()) {
    // The one exception: nobody waits to copy what is being taken away.
    if (request.kind === 'snapshot' && found.leaving) {
      told.push('invalid_transition')
      continue
    }
    // Whoever finds its equal at the end of the line, and only there, shares its performer and its result.
    if (found.equal) {
      expect(answer).toBe('join')
      const ahead = part.answers.findLastIndex((other, at) => at < index && other.operation.id === operation.id)
      expect(part.answers[ahead]?.request).toEqual(request)
      told.push(told[ahead] as string)
      continue
    }
    expect(answer).not.toBe('join')
    const ruling = state === undefined ? 'work' : rule(scenario, state, request)
    if (ruling !== 'work') {
      told.push(ruling)
      continue
    }
    const result = part.performed.get(operation.id)
    const wasNotThere: boolean = state === undefined || state === 'gone'
    told.push(result === 'works' ? (wasNotThere && request.kind === 'resume' ? 'respawned' : 'done') : 'failed')
    if (result === 'works') state = workLeadsTo(scenario, request)
    else if (result === 'loses' || wasNotThere) state = 'gone'
  }
  return { told, end: state as SettledState }
}

function whatTheyWereTold(part: Part): string[] {
  return part.answers.map(({ operation: { status, outcome, error } }) => {
    if (status === 'refused') return error?.error_type as string
    return status === 'failed' ? 'failed' : outcome === 'already_done' ? 'already done' : (outcome as string)
  })
}

type Meeting = Pick<Scenario, 'alphabet' | 'count' | 'canPause' | 'results' | 'crashesMax'> & { firsts?: Request[] }

async function walkAll(what: string, { firsts, ...meeting }: Meeting): Promise<void> {
  const scenarios = STARTS.flatMap((start) =>
    (firsts ?? meeting.alphabet)
      // What is not there can only be spawned, and what cannot pause is never suspended.
      .filter(({ kind }) => (start === 'absent' ? kind === 'spawn' : meeting.canPause || start !== 'suspended'))
      .map((first): Scenario => ({ start, first, ...meeting })),
  )
  const { sequences, schedules, steps } = await walk(database.db, scenarios, (part, scenario) => {
    const story = [scenario.start, ...part.steps].join(', ')
    const { told, end } = oneAfterTheOther(scenario, part)
    expect({ story, told: whatTheyWereTold(part), end: part.rest ?? end }).toEqual({ story, told, end })
    return end
  })
  expect(sequences.size).toBe(scenarios.length * meeting.alphabet.length ** (meeting.count - 1))
  console.log(`${what}: ${sequences.size} sequences of requests, ${schedules} schedules, walked in ${steps} steps`)
}

const TIMEOUT_MS = process.env.SANDMAN_WALK_ALL ? 7_200_000 : 500_000

test('two requests may meet in any way, and each is told what it would be told alone', {
  timeout: TIMEOUT_MS,
}, async () => {
  const rest = { results: PROVIDER_RESULTS, crashesMax: 2, canPause: true }
  await walkAll('pairs', { alphabet: WITH_OPTIONS, count: 2, ...rest })
})

test('so may two requests to a sandbox that cannot pause', { timeout: TIMEOUT_MS }, async () => {
  const rest = { results: PROVIDER_RESULTS, crashesMax: 1, canPause: false }
  // Nothing but a pause is answered in another way there, so a few others have to meet it.
  const few = WITH_OPTIONS.filter(({ kind }) => kind === 'pause' || kind === 'resume' || kind === 'kill')
  const asked = isThorough ? { alphabet: WITH_OPTIONS } : { firsts: [...few, SPAWN], alphabet: few }
  await walkAll('pairs without pause', { ...asked, count: 2, ...rest })
})

/** A spawn comes first or not at all: of a sandbox that there is, nobody can ask for one. What it would be told, pairs show. */
const LATER = PLAIN.filter(
  ({ kind }) => kind !== 'spawn' && (isThorough || (kind !== 'snapshot' && kind !== 'destroy')),
)

test(`so may three requests to ${LATER.map(({ kind }) => kind).join(', ')}`, { timeout: TIMEOUT_MS }, async () => {
  const rest = { results: ['works', 'fails'] as const, crashesMax: 1, canPause: true }
  await walkAll('triples', { firsts: [SPAWN, ...LATER], alphabet: LATER, count: 3, ...rest })
})
