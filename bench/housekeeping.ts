import type pg from 'pg'
import { say } from '../proof/report.ts'
import { runningClock } from '../src/clock.ts'
import { type DbHandle, openDb } from '../src/db/pool.ts'
import { Events } from '../src/events.ts'
import { HOUSEKEEPING } from '../src/jobs/housekeeping.ts'
import { type ReapDeps, reap } from '../src/jobs/reap.ts'
import { RollCall } from '../src/jobs/roll-call.ts'
import { Scribe } from '../src/jobs/scribe.ts'
import { sweep } from '../src/jobs/sweep.ts'
import type { SweepDeps } from '../src/jobs/tick.ts'
import { countQuestions } from './counting.ts'
import { LARGE, letBeSuspected, letIdle, makeLargeFleet } from './large-fleet.ts'
import { noopBackend } from './noop-backend.ts'
import type { Bench, Result, Row } from './section.ts'
import { median, rounded } from './statistics.ts'

const DAY_MS = 86_400_000
const TIMED = 3
/** How much more a tick may cost in a fleet that is ten or a hundred times as large. Time is measured on a machine that does other things too. */
const FLAT = { rows: 1.2, ms: 2 }

const TICKS = {
  /** Asks for a pause of each sandbox that idles for too long. */
  reaper: { letBeDue: letIdle, tick: (deps: Deps) => reap(deps, context()) },
  /** Between two rounds: looks again at each checkpoint that was missing, and finds it there. */
  sweeper: {
    letBeDue: letBeSuspected,
    tick: (deps: Deps) => sweep(deps, { backend: LARGE.backend, act: true, asked: false }, context()),
  },
}
type Ticking = keyof typeof TICKS
type Deps = ReapDeps & SweepDeps
type Cost = { ms: number; rows: number; statements: number }
type Growth = { ms: number; rows: number }

/** What a tick of the reaper and of the sweeper costs with a hundred that are due, however many there are besides. */
export async function housekeeping({ servers, sizes }: Bench): Promise<Result> {
  const { rows: counts, due } = sizes.housekeeping
  const costs = { reaper: {}, sweeper: {} } as Record<Ticking, Record<number, Cost>>
  const questions = countQuestions()
  for (const count of counts) {
    const databaseUrl = await servers.createDatabase(`housekeeping_${count}`)
    const open = (connectionsMax: number) =>
      openDb({ databaseUrl, applicationName: 'sandman bench', events: new Events(), connectionsMax })
    const [many, one] = [open(10), open(1)]
    try {
      say(`housekeeping: making ${count} sandboxes`)
      await makeLargeFleet(one.pool, count)
      for (const who of Object.keys(TICKS) as Ticking[])
        costs[who][count] = await measure(who, due, { many, one, questions })
    } finally {
      await Promise.all([many.close(), one.close()])
    }
  }
  const [least = 0] = counts
  const growth = (who: Ticking, count: number): Growth => ({
    ms: rounded((costs[who][count] as Cost).ms / (costs[who][least] as Cost).ms),
    rows: rounded((costs[who][count] as Cost).rows / (costs[who][least] as Cost).rows),
  })
  const json = (who: Ticking) =>
    Object.fromEntries(counts.map((count) => [count, { ...costs[who][count], growth: growth(who, count) }]))
  return {
    json: { due, reaper: json('reaper'), sweeper: json('sweeper') },
    rows: (Object.keys(TICKS) as Ticking[]).flatMap((who) =>
      counts.flatMap((count) =>
        rowsOf(who, { count, due, least, cost: costs[who][count] as Cost, growth: growth(who, count) }),
      ),
    ),
  }
}

async function measure(
  who: Ticking,
  due: number,
  { many, one, questions }: { many: DbHandle; one: DbHandle; questions: ReturnType<typeof countQuestions> },
): Promise<Cost> {
  const { letBeDue, tick } = TICKS[who]
  const times: number[] = []
  for (let nth = 0; nth <= TIMED; nth++) {
    await letBeDue(many.pool, nth, due)
    const beganAt = performance.now()
    await tick(depsOf(many))
    if (nth > 0) times.push(performance.now() - beganAt)
  }
  // Once more on a single connection, whose own account of what it has read is complete.
  await letBeDue(one.pool, TIMED + 1, due)
  const before = { rows: await rowsTouched(one.pool), asked: questions().ledger }
  await tick(depsOf(one))
  const statements = questions().ledger - before.asked
  return { ms: rounded(median(times)), rows: (await rowsTouched(one.pool)) - before.rows, statements }
}

/** Rows that were read, and rows that were written, of all tables so far. */
async function rowsTouched(pool: pg.Pool): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query<{ touched: number }>(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)::float8 as touched
     from pg_stat_user_tables where schemaname = 'sandman'`,
  )
  return rows[0]?.touched ?? 0
}

/** As a worker has them, but that nobody hears its rings: what a tick asks for is not carried out here. */
function depsOf({ db }: DbHandle): Deps {
  const base = { db, clock: runningClock, fleet: LARGE.fleet, worker: 'bench', events: new Events() }
  const { place } = LARGE
  const lists = { ...noopBackend().lists, place: async () => ({ name: place, holds: () => true }) }
  const backend = { ...noopBackend(LARGE.backend), lists }
  return {
    ...base,
    backends: new Map([[backend.name, backend]]),
    ring: async () => {},
    ringForExecutions: async () => {},
    announce() {},
    scribe: new Scribe(base),
    rollCall: new RollCall({ ...base, overdueMs: DAY_MS }),
    limits: {},
    keep: { eventsMs: 90 * DAY_MS, outputMs: 30 * DAY_MS, keysMs: 7 * DAY_MS },
    destroyMax: 100,
    mayAct: true,
    // What must always be true is looked at for a fixed time of every tick, however much there is.
    housekeeping: { ...HOUSEKEEPING, checkMs: 0 },
    endSweeps: async () => {},
  }
}

function context() {
  return { signal: new AbortController().signal, madeAt: new Date() }
}

function rowsOf(
  who: Ticking,
  { count, due, least, cost, growth }: { count: number; due: number; least: number; cost: Cost; growth: Growth },
): Row[] {
  const figure = `tick of the ${who}, ${due} due of ${count.toLocaleString('en')}`
  const note = `with ${least.toLocaleString('en')}`
  const rows = { figure: `${figure}: rows touched`, value: cost.rows, unit: '' }
  const ms = { figure, value: cost.ms, unit: 'ms' }
  if (count === least) return [ms, rows]
  return [
    { ...ms, note, ratio: growth.ms, goal: { atMost: FLAT.ms } },
    { ...rows, note: `${note}; ${cost.statements} statements`, ratio: growth.rows, goal: { atMost: FLAT.rows } },
  ]
}
