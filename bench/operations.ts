import { say } from '../proof/report.ts'
import { type Lane, openLane } from './lane.ts'
import { type Bench, type Result, type Row, STORES, type Store } from './section.ts'
import { median, rounded } from './statistics.ts'
import { type Subject, startSubject } from './subject.ts'
import { MEASURED_KINDS, type Measured, type MeasuredKind } from './subjects/order.ts'

/** What the ratio of a worker to what its queue and its statements allow has to be. */
export const EFFICIENCY_GOAL = 0.9

/**
 * Operations per second of one worker process, on a provider that answers at once. Beside it what its parts alone do in a process
 * of their own: BullMQ with jobs that do nothing, and the statements with no queue. Each is given its work beforehand, so that
 * only the taking is measured; one after the other, again and again, so that all of them have the same weather.
 */
export async function operations(bench: Bench): Promise<Result> {
  const figures: Record<string, Figures> = {}
  for (const store of STORES) figures[store] = await measure(bench, store)
  return { json: figures, rows: STORES.flatMap((store) => rowsOf(store, figures[store] as Figures)) }
}

type Figures = Awaited<ReturnType<typeof measure>>
type Subjects = Record<'worker' | 'bullmq' | 'sql', Subject>
/** One figure for each kind, in each round. */
type Rounds = Record<keyof Subjects, Record<MeasuredKind, Measured>>[]

async function measure({ servers, sizes, profileFolder }: Bench, store: Store) {
  const { sandboxes, rounds } = sizes.operations
  const databaseUrl = await servers.createDatabase(`operations_${store}`)
  const redisUrl = store === 'redis' ? servers.redisUrl : undefined
  const place = (fleet: string) => ({ databaseUrl, redisUrl, fleet, profileFolder })
  const lane = await openLane(place('ours'))
  const bare = await openLane(place('bare'))
  const [worker, bullmq, sql] = await Promise.all([
    startSubject('worker', place('ours')),
    startSubject('bullmq', place('bare')),
    startSubject('sql', place('sql')),
  ])
  const subjects = { worker, bullmq, sql }
  try {
    const ours = await lane.makeRunning(sandboxes)
    const others = await openLane(place('sql')).then(async (each) => {
      const made = await each.makeRunning(sandboxes)
      await each.close()
      return made
    })
    const measured: Rounds = []
    // The first one warms up: statements are planned, and code is compiled.
    for (let round = 0; round <= rounds; round++) {
      const figures = { worker: {}, bullmq: {}, sql: {} } as Rounds[number]
      for (const kind of MEASURED_KINDS) {
        figures.worker[kind] = await lane.drain(worker, kind, sandboxes, () => lane.request(kind, ours))
        figures.bullmq[kind] = await bare.drain(bullmq, kind, sandboxes, () => bare.ring(kind, sandboxes))
        figures.sql[kind] = await sql.ask<Measured>('drain', { kind, sandboxIds: others })
      }
      if (round > 0) measured.push(figures)
      say(
        `operations on ${store}, round ${round} of ${rounds}: ${rounded(perSecond(Object.values(figures.worker)))} a second`,
      )
      await lane.tidyUp()
    }
    await assertSettled(lane, MEASURED_KINDS.length * sandboxes * (rounds + 1))
    return figuresOf(measured)
  } finally {
    await Promise.all(Object.values(subjects).map((subject) => subject.stop()))
    await Promise.all([lane.close(), bare.close()])
  }
}

/** A rate is worth nothing if it is not the rate of what was asked for. */
async function assertSettled({ pool, place }: Lane, wanted: number): Promise<void> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from sandman.operations join sandman.sandboxes on sandboxes.id = sandbox_id
     where fleet = $1 and status = 'succeeded' and outcome = 'done' and attempt = 1`,
    [place.fleet],
  )
  if (rows[0]?.count !== wanted) throw new Error(`${rows[0]?.count} of ${wanted} operations succeeded at once`)
}

function figuresOf(rounds: Rounds) {
  const rate = (subject: keyof Subjects, kinds: readonly MeasuredKind[] = MEASURED_KINDS) =>
    rounded(median(rounds.map((round) => perSecond(kinds.map((kind) => round[subject][kind])))), 4)
  const cpu = (subject: keyof Subjects) =>
    rounded(median(rounds.map((round) => cpuMsPerOne(Object.values(round[subject])))))
  const ops_per_s = rate('worker')
  const bullmq_per_s = rate('bullmq')
  const sql_per_s = rate('sql')
  return {
    ops_per_s,
    bullmq_per_s,
    sql_per_s,
    efficiency: rounded(ops_per_s / together(bullmq_per_s, sql_per_s)),
    by_kind: Object.fromEntries(
      MEASURED_KINDS.map((kind) => {
        const [ours, bullmq, sql] = [rate('worker', [kind]), rate('bullmq', [kind]), rate('sql', [kind])]
        const efficiency = rounded(ours / together(bullmq, sql))
        return [kind, { ops_per_s: ours, bullmq_per_s: bullmq, sql_per_s: sql, efficiency }]
      }),
    ),
    cpu_ms_per_op: { worker: cpu('worker'), bullmq: cpu('bullmq'), sql: cpu('sql') },
  }
}

/** What two that follow one another allow. */
function together(bullmq: number, sql: number): number {
  return 1 / (1 / bullmq + 1 / sql)
}

function perSecond(parts: readonly Measured[]): number {
  return (sum(parts, 'count') / sum(parts, 'ms')) * 1_000
}

function cpuMsPerOne(parts: readonly Measured[]): number {
  return sum(parts, 'cpuMs') / sum(parts, 'count')
}

function sum(parts: readonly Measured[], what: keyof Measured): number {
  return parts.reduce((total, part) => total + part[what], 0)
}

function rowsOf(store: Store, figures: Figures): Row[] {
  const { ops_per_s, bullmq_per_s, sql_per_s, efficiency, cpu_ms_per_op } = figures
  const { worker, bullmq, sql } = cpu_ms_per_op
  return [
    {
      figure: `operations on ${store}`,
      value: ops_per_s,
      unit: '/s',
      limit: rounded(together(bullmq_per_s, sql_per_s), 4),
      limitIs: `BullMQ ${bullmq_per_s}/s, then SQL ${sql_per_s}/s`,
      ratio: efficiency,
      goal: { atLeast: EFFICIENCY_GOAL },
    },
    {
      figure: `processor time of one on ${store}`,
      value: worker,
      unit: 'ms',
      limit: rounded(bullmq + sql),
      limitIs: `BullMQ ${bullmq} ms and SQL ${sql} ms`,
      ratio: rounded(worker / (bullmq + sql)),
    },
  ]
}
