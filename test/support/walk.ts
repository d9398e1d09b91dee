import { sql } from 'kysely'
import { findViolations } from '../../src/db/invariants.ts'
import type { Db } from '../../src/db/pool.ts'
import type { Answer } from '../../src/db/request.ts'
import type { OperationRow } from '../../src/db/schema.ts'
import type { Taken } from '../../src/db/take.ts'
import type { Request } from '../../src/sandbox/judge.ts'
import type { SettledState, State } from '../../src/sandbox/states.ts'
import { stoppedClock } from './clock.ts'
import { endingOf, type Ledger, ledgerOn, type ProviderResult } from './ledger.ts'

export type Start = SettledState | 'absent'

export type Scenario = {
  start: Start
  /** From `absent`, it is a spawn. */
  first: Request
  /** After the first, each of these may come next, again and again. */
  alphabet: readonly Request[]
  /** How many requests arrive in all. */
  count: number
  canPause: boolean
  results: readonly ProviderResult[]
  /** How often in one schedule a worker may die in the middle of an operation, and another take it over, if every one is walked. */
  crashesMax: number
}

/**
 * A part of a schedule, at the end of which everybody who came in it has been told. Nobody looks back at what has ended, so each
 * part is looked at by itself, and the next one begins where it has led.
 */
export type Part = {
  /** Of the whole schedule, up to here. */
  steps: readonly string[]
  /** Where everybody before has left the sandbox; undefined when it was not there yet. */
  from: SettledState | undefined
  /** In order of arrival: what was asked, what it was told at once, and the operation that it got. */
  answers: { request: Request; found: Found; answer: Answer; operation: StoredOperation }[]
  /** What the provider did in the end with each operation that a worker performed, by its id. */
  performed: ReadonlyMap<string, ProviderResult>
  /** Where it rests; undefined while others are still in its line. */
  rest: State | undefined
}

type StoredOperation = Pick<OperationRow, 'id' | 'status' | 'outcome' | 'error'>

/** What a request found when it arrived: its equal at the end of the line, or a sandbox that is being taken away. */
type Found = { equal: boolean; leaving: boolean }

type Moment = {
  /** How many requests have arrived. */
  arrivals: number
  /** Where those who have been told, and before whom nobody waits, have left the sandbox; the others have arrived since. */
  settled: SettledState | undefined
  arrived: readonly { request: Request; found: Found; answer: Answer; operationId: string }[]
  /** Operations that have not ended, in the order in which they came. */
  line: readonly { request: Request; operationId: string }[]
  state: State | undefined
  active: string | undefined
  worker: { taken: Taken; called: ProviderResult | undefined } | undefined
  /** What the provider has done and cannot undo, whoever asks again. */
  done: ProviderResult | undefined
  performed: ReadonlyMap<string, ProviderResult>
  crashesLeft: number
  /** What is in the database. */
  stored: string
  steps: readonly string[]
}

/** A request or a step, and the moment that it leads to. */
type Way = { request: Request | undefined; isCounted: boolean; to: string }

/**
 * Walks every schedule of the scenarios: every request that may come next, every place in which it may arrive between the steps of
 * the workers, every result of every provider call, and every step after which a worker may die. Each step is the real code on the real
 * database; a savepoint at each fork leads back to it. After each step the invariants are looked at.
 *
 * Schedules that meet in the same moment have the same future, and it is walked once, wherever they have begun and also when one of
 * them comes there by a crash: so there is no bound on crashes. They are not counted, because a worker may die in the same place
 * again and again. Moments are the same when what is stored is, and what those have found who still wait; who has been told, and
 * waits for nobody before, has been looked at by then. `SANDMAN_WALK_ALL=1` walks every future every time instead, up to a number
 * of crashes, which takes many times as long and has to find the same.
 */
export async function walk(
  db: Db,
  scenarios: readonly Scenario[],
  /** Looks at a part of a schedule, and returns where it should have led. */
  visit: (part: Part, scenario: Scenario) => SettledState,
): Promise<{ sequences: Set<string>; schedules: number; steps: number }> {
  const everyFuture = Boolean(process.env.SANDMAN_WALK_ALL)
  const ways = new Map<string, Way[]>()
  let steps = 0
  class WalkedToTheEnd extends Error {}

  const walkOne = async (scenario: Scenario, name: string) => {
    const walked = db.transaction().execute(async (transaction) => {
      const ledger = ledgerOn(transaction, { fleet: 'walk', clock: stoppedClock('2026-05-01T00:00:00Z') })
      const { start, canPause, crashesMax } = scenario
      const sandboxId = start === 'absent' ? undefined : (await ledger.at(start, { canPause })).id
      const state = start === 'absent' ? undefined : start
      await explore({ ...BEGINNING, state, settled: state, crashesLeft: crashesMax }, name, sandboxId)
      throw new WalkedToTheEnd()

      async function explore(moment: Moment, key: string, sandboxId: string | undefined): Promise<void> {
        const onwards: Way[] = []
        ways.set(key, onwards) // who comes here again, also from further on, need not go on
        const moves = movesFrom(everyFuture ? moment : { ...moment, crashesLeft: 1 }, scenario, ledger, sandboxId)
        if (moves.length === 0 && moment.arrived.length > 0)
          throw new Error(`nobody moves any more, and somebody waits, after ${moment.steps.join(', ')}`)
        const fork = sql.raw(`fork_${moment.steps.length}`)
        if (moves.length > 1) await sql`savepoint ${fork}`.execute(transaction)
        for (const [index, move] of moves.entries()) {
          if (index > 0) await sql`rollback to savepoint ${fork}`.execute(transaction)
          steps++
          const { sandboxId: id = sandboxId as string, ...changes } = await move.make()
          let after: Moment = { ...moment, ...changes, steps: [...moment.steps, move.name] }
          if (!move.touchesNothing) after = cut(after, await look(transaction, id, after.steps))
          const to = everyFuture ? `step ${steps}` : keyOf(after)
          onwards.push({ request: move.request, isCounted: everyFuture || !move.isCrash, to })
          if (!ways.has(to)) await explore(after, to, id)
        }
      }

      /** Whoever has been told, and waits for nobody before, is looked at and left behind. */
      function cut(moment: Moment, found: string): Moment {
        const [sandbox, operations, checkpoints] = JSON.parse(found) as [unknown, StoredOperation[], unknown]
        const isOpen = ({ status }: StoredOperation) => status === 'active' || status === 'waiting'
        const byId = new Map(operations.map((operation) => [operation.id, operation]))
        const told = moment.arrived.map(({ operationId, ...told }) => ({
          ...told,
          operation: byId.get(operationId) as StoredOperation,
        }))
        const firstOpen = told.findIndex(({ operation }) => isOpen(operation))
        const answers = firstOpen === -1 ? told : told.slice(0, firstOpen)
        const live = operations.filter(isOpen)
        // No decision looks back at what has ended. Between two requests nothing is left out, so one that did would show there.
        const stored = JSON.stringify([sandbox, moment.arrivals < 2 ? operations : live, checkpoints])
        if (answers.length === 0) return { ...moment, stored }
        const rest = moment.active === undefined ? moment.state : undefined
        const { steps, settled: from, performed } = moment
        return {
          ...moment,
          settled: visit({ steps, from, answers, performed, rest }, scenario),
          arrived: moment.arrived.slice(answers.length),
          performed: new Map([...performed].filter(([id]) => live.some((operation) => operation.id === id))),
          stored,
        }
      }
    })
    await walked.catch((error: unknown) => {
      if (!(error instanceof WalkedToTheEnd)) throw error
    })
  }

  const left = scenarios.map((scenario, index) => ({ scenario, name: `beginning ${index}` }))
  const beginnings = [...left]
  const walker = async () => {
    for (let next = left.shift(); next; next = left.shift()) await walkOne(next.scenario, next.name)
  }
  await Promise.all(Array.from({ length: 4 }, walker))

  const futures = futuresIn(ways)
  const sequences = new Set<string>()
  let schedules = 0
  for (const { scenario, name } of beginnings) {
    const from = futures(name)
    schedules += from.schedules
    for (const asked of from.sequences) sequences.add(`${scenario.start}${asked}`)
  }
  return { sequences, schedules, steps }
}

/** How many schedules there are from a moment, and which requests arrive in them. */
function futuresIn(ways: Map<string, Way[]>) {
  const known = new Map<string, { schedules: number; sequences: Set<string> }>()
  return function futures(key: string): { schedules: number; sequences: Set<string> } {
    const before = known.get(key)
    if (before) return before
    const onwards = ways.get(key) ?? []
    const sum = { schedules: onwards.length === 0 ? 1 : 0, sequences: new Set(onwards.length === 0 ? [''] : []) }
    for (const { request, isCounted, to } of onwards) {
      if (!isCounted) continue
      const { schedules, sequences } = futures(to)
      sum.schedules += schedules
      for (const asked of sequences) sum.sequences.add(request ? `, ${describeRequest(request)}${asked}` : asked)
    }
    known.set(key, sum)
    return sum
  }
}

const BEGINNING: Omit<Moment, 'crashesLeft'> = {
  arrivals: 0,
  settled: undefined,
  arrived: [],
  line: [],
  state: undefined,
  active: undefined,
  worker: undefined,
  done: undefined,
  performed: new Map(),
  stored: '',
  steps: [],
}

type Move = {
  name: string
  request?: Request
  touchesNothing?: boolean
  isCrash?: boolean
  make(): Promise<Partial<Moment> & { sandboxId?: string }>
}

function movesFrom(moment: Moment, scenario: Scenario, ledger: Ledger, sandboxId: string | undefined): Move[] {
  const { arrivals, arrived, line, active, worker, steps } = moment
  const last = line.at(-1)?.request
  const moves: Move[] = []
  const coming = arrivals === 0 ? [scenario.first] : arrivals < scenario.count ? scenario.alphabet : []
  for (const request of coming) {
    const found: Found = {
      equal: last !== undefined && describeRequest(last) === describeRequest(request),
      leaving: moment.state === 'pausing' || moment.state === 'killing',
    }
    moves.push({
      name: `${describeRequest(request)} arrives`,
      request,
      async make() {
        const { answer, operation, sandbox } = sandboxId
          ? await ledger.ask(sandboxId, request.kind, { options: request.options })
          : await ledger.spawn({ canPause: scenario.canPause })
        return {
          arrivals: arrivals + 1,
          arrived: [...arrived, { request, found, answer, operationId: operation.id }],
          line: answer === 'work' || answer === 'wait' ? [...line, { request, operationId: operation.id }] : line,
          state: sandbox.state,
          active: answer === 'work' ? operation.id : active,
          sandboxId: sandbox.id,
        }
      },
    })
  }
  if (!active) return moves
  if (!worker) {
    moves.push({
      name: 'taken',
      make: async () => ({ worker: { taken: await ledger.begin(active), called: undefined } }),
    })
    return moves
  }
  const { called } = worker
  if (called === undefined) {
    for (const result of moment.done ? [moment.done] : scenario.results) {
      moves.push({
        name: `the provider ${result}`,
        touchesNothing: true,
        make: async () => ({ worker: { ...worker, called: result }, done: result === 'fails' ? undefined : result }),
      })
    }
  } else {
    moves.push({
      name: 'settled',
      async make() {
        const ending = endingOf(worker.taken, called)
        const { next, answered, sandbox } = await ledger.end(worker.taken.attempt, ending)
        const ended = [active, ...answered]
        const again = await ledger.tryEnd(worker.taken.attempt, ending)
        if (again.settled) throw new Error(`settled twice after ${steps.join(', ')}`)
        const performed = new Map(moment.performed).set(active, called)
        return {
          line: line.filter(({ operationId }) => !ended.includes(operationId)),
          state: sandbox.state,
          active: next?.operationId,
          worker: undefined,
          done: undefined,
          performed,
        }
      },
    })
  }
  if (moment.crashesLeft > 0) {
    moves.push({
      name: 'crashed and retaken',
      isCrash: true,
      async make() {
        const taken = await ledger.begin(active)
        const late = await ledger.tryEnd(worker.taken.attempt, endingOf(worker.taken, called ?? 'works'))
        if (late.settled) throw new Error(`a stale fence has settled after ${steps.join(', ')}`)
        return { worker: { taken, called: undefined }, crashesLeft: moment.crashesLeft - 1 }
      },
    })
  }
  return moves
}

/** Checks the invariants, and returns everything that is stored of a sandbox but for fences and history. */
export async function look(db: Db, sandboxId: string, steps: readonly string[]): Promise<string> {
  const violations = await findViolations(db, { sandboxId })
  if (violations.length > 0) throw new Error(`after ${steps.join(', ')}: ${JSON.stringify(violations)}`)
  const { rows } = await sql<{ stored: string }>`/* look */ select jsonb_build_array(
      to_jsonb(sandboxes) - ${VARYING}::text[],
      (select jsonb_agg(to_jsonb(operations) - ${VARYING}::text[] order by place)
        from sandman.operations where sandbox_id = sandboxes.id),
      (select jsonb_agg(jsonb_build_array(kind, status) order by id)
        from sandman.checkpoints where sandbox_id = sandboxes.id))::text as stored
    from sandman.sandboxes where id = ${sandboxId}`.execute(db)
  return (rows[0] as { stored: string }).stored
}

/** They grow, or name what the test itself made up; no decision looks at them. */
export const VARYING = ['fence', 'attempt', 'place', 'incarnation', 'provider_ref']

/** Two moments with the same key differ in nothing but the way that led there. */
function keyOf({ arrivals, settled, arrived, active, worker, done, performed, stored }: Moment): string {
  const parts = [arrivals, settled, arrived, active, worker && [worker.called], done, [...performed], stored]
  return withoutIds(JSON.stringify(parts))
}

/** Ids are new each time; what counts is which of them are the same. */
export function withoutIds(text: string): string {
  const seen = new Map<string, string>()
  return text.replaceAll(/(?:op|ckpt|sbx)_[0-9a-f]+/g, (id) => {
    const name = seen.get(id) ?? `#${seen.size}`
    seen.set(id, name)
    return name
  })
}

export function describeRequest({ kind, options }: Request): string {
  return Object.keys(options).length === 0 ? kind : `${kind} ${JSON.stringify(options)}`
}
