import os from 'node:os'
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
 * of their own: BullMQ with jobs that do nothing, and the statements with no queue, for each operation by itself and as a worker
 * makes them, which takes many at once. Each is given its work beforehand, so that only the taking is measured; one after the other,
 * again and again, so that all of them have the same weather.
 */
export async function operations(bench: Bench): Promise<Result> {
  const figures: Record<string, Figures> = {}
  for (const store of STORES) figures[store] = await measure(bench, store)
  return { json: figures, rows: STORES.flatMap((store) => rowsOf(store, figures[store] as Figures)) }
}

type Figures = Awaited<ReturnType<typeof measure>>
/** What takes its turn: a worker, and its parts alone. */
type Part = 'worker' | 'bullmq' | 'sql' | 'sqlTogether'
/** One figure for each kind, in each round. */
type Rounds = Record<Part, Record<MeasuredKind, Measured>>[]

async function measure({ servers, sizes, profileFolder }: Bench, store: Store) {
  const { sandboxes, warmUps, rounds } = sizes.operations
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
  const subjects: Subject[] = [worker, bullmq, sql]
  try {
    const ours = await lane.makeRunning(sandboxes)
    const [others, more] = await openLane(place('sql')).then(async (each) => {
      const made = [await each.makeRunning(sandboxes), await each.makeRunning(sandboxes)] as const
      await each.close()
      return made
    })
    const drain: Record<Part, (kind: MeasuredKind) => Promise<Measured>> = {
      worker: (kind) => lane.drain(worker, kind, sandboxes, () => lane.request(kind, ours)),
      bullmq: (kind) => bare.drain(bullmq, kind, sandboxes, () => bare.ring(kind, sandboxes)),
      sql: (kind) => sql.ask('drain', { kind, sandboxIds: others, isTogether: false }),
      sqlTogether: (kind) => sql.ask('drain', { kind, sandboxIds: more, isTogether: true }),
    }
    const measured: Rounds = []
    for (let round = 1 - warmUps; round <= rounds; round++) {
      const figures = { worker: {}, bullmq: {}, sql: {}, sqlTogether: {} } as Rounds[number]
      for (const kind of MEASURED_KINDS)
        for (const [part, each] of Object.entries(drain)) figures[part as Part][kind] = await each(kind)
      if (round > 0) measured.push(figures)
      const which = round > 0 ? `round ${round} of ${rounds}` : 'warming up'
      say(`operations on ${store}, ${which}: ${rounded(perSecond(Object.values(figures.worker)))} a second`)
      await lane.tidyUp()
    }
    await assertSettled(lane, MEASURED_KINDS.length * sandboxes * (warmUps + rounds))
    return figuresOf(measured)
  } finally {
    await Promise.all(subjects.map((subject) => subject.stop()))
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
  const rate = (part: Part, kinds: readonly MeasuredKind[] = MEASURED_KINDS) =>
    rounded(median(rounds.map((round) => perSecond(kinds.map((kind) => round[part][kind])))), 4)
  const coresOf = (part: Part) =>
    coresPerOne(rounds.flatMap((round) => MEASURED_KINDS.map((kind) => round[part][kind])))
  const ops_per_s = rate('worker')
  const bullmq_per_s = rate('bullmq')
  const sql_per_s = rate('sql')
  const sql_together_per_s = rate('sqlTogether')
  return {
    ops_per_s,
    bullmq_per_s,
    sql_per_s,
    efficiency: rounded(ops_per_s / together(bullmq_per_s, sql_per_s)),
    sql_together_per_s,
    efficiency_together: rounded(ops_per_s / together(bullmq_per_s, sql_together_per_s)),
    by_kind: Object.fromEntries(
      MEASURED_KINDS.map((kind) => {
        const [ours, bullmq, sql] = [rate('worker', [kind]), rate('bullmq', [kind]), rate('sql', [kind])]
        const efficiency = rounded(ours / together(bullmq, sql))
        return [kind, { ops_per_s: ours, bullmq_per_s: bullmq, sql_per_s: sql, efficiency }]
      }),
    ),
    cores_ms_per_op: {
      worker: coresOf('worker'),
      bullmq: coresOf('bullmq'),
      sql: coresOf('sql'),
      sql_together: coresOf('sqlTogether'),
    },
  }
}

/** What two that follow one another allow. */
function together(bullmq: number, sql: number): number {
  return 1 / (1 / bullmq + 1 / sql)
}

function perSecond(parts: readonly Measured[]): number {
  return (sum(parts, 'count') / sum(parts, 'ms')) * 1_000
}

/** Where the time goes that all cores have for one: to the process itself, to the stores and whoever else is there, to nobody. */
function coresPerOne(parts: readonly Measured[]) {
  const perOne = (what: keyof Measured) => sum(parts, what) / sum(parts, 'count')
  const [own, idle] = [perOne('cpuMs'), perOne('idleMs')]
  // Idle time is counted in larger steps than the others.
  const others = Math.max(0, os.availableParallelism() * perOne('ms') - own - idle)
  return { own: rounded(own), others: rounded(others), idle: rounded(idle) }
}

function sum(parts: readonly Measured[], what: keyof Measured): number {
  return parts.reduce((total, part) => total + part[what], 0)
}

function rowsOf(store: Store, figures: Figures): Row[] {
  const { ops_per_s, bullmq_per_s, sql_per_s, sql_together_per_s, efficiency, efficiency_together } = figures
  const { worker, bullmq, sql_together: sql } = figures.cores_ms_per_op
  const timeOf = (part: keyof typeof worker, whose: string): Row => ({
    figure: `${whose} for one on ${store}`,
    value: worker[part],
    unit: 'ms',
    limit: rounded(bullmq[part] + sql[part]),
    note: `BullMQ ${bullmq[part]} ms and SQL ${sql[part]} ms`,
  })
  return [
    {
      figure: `operations on ${store}`,
      value: ops_per_s,
      unit: '/s',
      limit: rounded(together(bullmq_per_s, sql_per_s), 4),
      note: `BullMQ ${bullmq_per_s}/s, then SQL ${sql_per_s}/s`,
      ratio: efficiency,
      goal: { atLeast: EFFICIENCY_GOAL },
    },
    {
      figure: `the same on ${store}, beside statements that take together as a worker does`,
      value: ops_per_s,
      unit: '/s',
      limit: rounded(together(bullmq_per_s, sql_together_per_s), 4),
      note: `BullMQ ${bullmq_per_s}/s, then SQL ${sql_together_per_s}/s`,
      ratio: efficiency_together,
    },
    timeOf('own', 'processor time of the worker'),
    timeOf('others', 'processor time of the stores, and of others,'),
    timeOf('idle', 'idle processor time'),
  ]
}
