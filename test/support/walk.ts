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

/** One way in which things may have happened, and what everybody was told in the end. */
export type Schedule = {
  steps: readonly string[]
  /** In order of arrival: what was asked, what it was told at once, and the operation that it got. */
  answers: { request: Request; found: Found; answer: Answer; operation: OperationRow }[]
  /** What the provider did in the end with each operation that a worker performed, by its id. */
  performed: ReadonlyMap<string, ProviderResult>
  end: SettledState
}

/** What a request found when it arrived: the sandbox's state, and what the last in its line had asked for. */
export type Found = { state: State | undefined; last: Request | undefined }

type Moment = {
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

/**
 * Walks every schedule of a scenario: every request that may come next, every place in which it may arrive between the steps of
 * the workers, every result of every provider call, and every step after which a worker may die. Each step is the real code on the real
 * database; a savepoint at each fork leads back to it. After each step the invariants are looked at.
 *
 * Schedules that meet in the same moment, with the same rows in the database, have the same future, and it is walked once, also
 * when one of them comes there by a crash: so there is no bound on crashes. They are not counted, because a worker may die in the
 * same place again and again. `SANDMAN_WALK_ALL=1` walks every future every time instead, up to a number of crashes, which takes
 * many times as long and has to find the same.
 */
export async function walk(
  db: Db,
  scenario: Scenario,
  visit: (schedule: Schedule) => void,
): Promise<{ schedules: number; steps: number }> {
  const known = process.env.SANDMAN_WALK_ALL ? undefined : new Map<string, number>()
  let steps = 0
  let schedules = 0
  class WalkedToTheEnd extends Error {}

  const walked = db.transaction().execute(async (transaction) => {
    const ledger = ledgerOn(transaction, { fleet: 'walk', clock: stoppedClock('2026-05-01T00:00:00Z') })
    const { start, canPause, crashesMax } = scenario
    const sandboxId = start === 'absent' ? undefined : (await ledger.at(start, { canPause })).id
    schedules = await explore(
      { ...BEGINNING, state: start === 'absent' ? undefined : start, crashesLeft: crashesMax },
      sandboxId,
    )
    throw new WalkedToTheEnd()

    /** Returns how many schedules there are from here. */
    async function explore(moment: Moment, sandboxId: string | undefined): Promise<number> {
      const moves = movesFrom(known ? { ...moment, crashesLeft: 1 } : moment, scenario, ledger, sandboxId)
      if (moves.length === 0) {
        visit(await finish(ledger, moment, sandboxId as string))
        return 1
      }
      const fork = sql.raw(`fork_${moment.steps.length}`)
      if (moves.length > 1) await sql`savepoint ${fork}`.execute(transaction)
      let count = 0
      for (const [index, move] of moves.entries()) {
        if (index > 0) await sql`rollback to savepoint ${fork}`.execute(transaction)
        steps++
        const { sandboxId: id = sandboxId as string, ...changes } = await move.make()
        const after: Moment = { ...moment, ...changes, steps: [...moment.steps, move.name] }
        if (!move.touchesNothing) after.stored = await look(transaction, id, after.steps)
        const key = keyOf(after)
        const isKnown = known?.has(key)
        if (!isKnown) known?.set(key, 0) // who comes here again from further on has gone round in a circle
        const below = isKnown ? (known?.get(key) as number) : await explore(after, id)
        known?.set(key, below)
        if (!move.isCrash || !known) count += below
      }
      return count
    }
  })
  await walked.catch((error: unknown) => {
    if (!(error instanceof WalkedToTheEnd)) throw error
  })
  return { schedules, steps }
}

const BEGINNING: Omit<Moment, 'crashesLeft'> = {
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
  touchesNothing?: boolean
  isCrash?: boolean
  make(): Promise<Partial<Moment> & { sandboxId?: string }>
}

function movesFrom(moment: Moment, scenario: Scenario, ledger: Ledger, sandboxId: string | undefined): Move[] {
  const { arrived, line, active, worker, steps } = moment
  const found: Found = { state: moment.state, last: line.at(-1)?.request }
  const moves: Move[] = []
  const coming = arrived.length === 0 ? [scenario.first] : arrived.length < scenario.count ? scenario.alphabet : []
  for (const request of coming) {
    moves.push({
      name: `${describeRequest(request)} arrives`,
      async make() {
        const { answer, operation, sandbox } = sandboxId
          ? await ledger.ask(sandboxId, request.kind, { options: request.options })
          : await ledger.spawn({ canPause: scenario.canPause })
        return {
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
function keyOf({ arrived, active, worker, done, performed, stored }: Moment): string {
  return withoutIds(JSON.stringify([arrived, active, worker && [worker.called], done, [...performed], stored]))
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

async function finish(ledger: Ledger, moment: Moment, sandboxId: string): Promise<Schedule> {
  const operations = new Map((await ledger.operations(sandboxId)).map((operation) => [operation.id, operation]))
  const { state } = await ledger.sandbox(sandboxId)
  return {
    steps: moment.steps,
    answers: moment.arrived.map(({ operationId, ...told }) => ({
      ...told,
      operation: operations.get(operationId) as OperationRow,
    })),
    performed: moment.performed,
    end: state as SettledState,
  }
}

export function describeRequest({ kind, options }: Request): string {
  return Object.keys(options).length === 0 ? kind : `${kind} ${JSON.stringify(options)}`
}
