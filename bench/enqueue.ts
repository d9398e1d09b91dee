import { Redis } from 'ioredis'
import { type Counts, commandsOf, countQuestions, difference } from './counting.ts'
import { openLane } from './lane.ts'
import { moment } from './moment.ts'
import { type Bench, type Result, type Row, STORES, type Store } from './section.ts'
import { type Percentiles, percentiles, rounded } from './statistics.ts'
import { type Subject, startSubject } from './subject.ts'

const WARM_UP = 20
const NONE: Counts = { ledger: 0, queue: 0, redis: 0 }

/**
 * What it costs a web app to ask: the time of `fleet.pause()` without a wait, beside a bare insert and a bare ring of the queue,
 * and what is asked of the stores for one operation, by the app and then by the worker.
 */
export async function enqueue(bench: Bench): Promise<Result> {
  const figures: Record<string, Figures> = {}
  const counts = countQuestions()
  for (const store of STORES) figures[store] = await measure(bench, store, counts)
  return { json: figures, rows: STORES.flatMap((store) => rowsOf(store, figures[store] as Figures)) }
}

/**
 * What one operation asks of the stores. Round trips are its statements and what is sent to Redis. `redis_commands` is what Redis
 * carries out for that, also inside of scripts.
 */
type Asked = {
  statements: { ledger: number; queue: number }
  redis_sent: number
  round_trips: number
  redis_commands: number
}
type Figures = { pause_ms: Percentiles; bare_ms: Percentiles; per_operation: { web: Asked; worker: Asked } }

async function measure({ servers, sizes }: Bench, store: Store, counts: () => Counts): Promise<Figures> {
  const { requests } = sizes.enqueue
  const databaseUrl = await servers.createDatabase(`enqueue_${store}`)
  const redisUrl = store === 'redis' ? servers.redisUrl : undefined
  const place = (fleet: string) => ({ databaseUrl, redisUrl, fleet: `enqueue-${fleet}` })
  const [lane, bare] = await Promise.all([openLane(place('ours')), openLane(place('bare'))])
  const redis = new Redis(servers.redisUrl)
  let worker: Subject | undefined
  try {
    await lane.closeQueue('pause')
    await bare.pool.query(
      'create table requests (id text primary key, sandbox_id text not null, kind text not null, at timestamptz not null)',
    )
    const ids = await lane.makeRunning(WARM_UP + requests)
    const ours: number[] = []
    const bares: number[] = []
    const asked = { ...NONE }
    let commands = 0
    for (const [nth, id] of ids.entries()) {
      const counted = counts()
      const commandsBefore = await commandsOf(redis)
      const askedAt = moment()
      await lane.fleet.pause(id)
      if (nth >= WARM_UP) ours.push(moment() - askedAt)
      const { ledger, queue, redis: sent } = difference(counts(), counted)
      if (nth >= WARM_UP) {
        asked.ledger += ledger
        asked.queue += queue
        asked.redis += sent - 1 // the look at the counters themselves
        commands += (await commandsOf(redis)) - commandsBefore - 1
      }
      const insertedAt = moment()
      await bare.pool.query('insert into requests (id, sandbox_id, kind, at) values ($1, $2, $3, now())', [
        `r${nth}`,
        id,
        'pause',
      ])
      await bare.ring('pause', 1)
      if (nth >= WARM_UP) bares.push(moment() - insertedAt)
    }
    // Only now, because it looks at its queues also when there is nothing; and what it does at first is not counted.
    const started = await startSubject('worker', place('ours'))
    worker = started
    await lane.drain(started, 'pause', ids.length, async () => {})
    const others = await lane.makeRunning(requests)
    let before = { counts: NONE, commands: 0 }
    await lane.drain(started, 'pause', requests, async () => {
      await lane.request('pause', others)
      before = { counts: await started.ask<Counts>('counts'), commands: await commandsOf(redis) }
    })
    const after = { counts: await started.ask<Counts>('counts'), commands: await commandsOf(redis) }
    const worked = difference(after.counts, before.counts)
    return {
      pause_ms: percentiles(ours),
      bare_ms: percentiles(bares),
      per_operation: {
        web: perOperation(asked, commands, requests),
        worker: perOperation(worked, after.commands - before.commands, requests),
      },
    }
  } finally {
    redis.disconnect()
    await worker?.stop()
    await Promise.all([lane.close(), bare.close()])
  }
}

export function perOperation(counts: Counts, commands: number, operations: number): Asked {
  const each = (count: number) => rounded(count / operations)
  const [ledger, queue, redis] = [each(counts.ledger), each(counts.queue), each(counts.redis)]
  return {
    statements: { ledger, queue },
    redis_sent: redis,
    round_trips: Number((ledger + queue + redis).toFixed(3)), // of the rounded ones, so that whoever adds them up finds the same
    redis_commands: each(commands),
  }
}

export function rowsOf(store: Store, { pause_ms, bare_ms, per_operation }: Figures): Row[] {
  return [
    ...(['p50', 'p99'] as const).map((percent) => ({
      figure: `fleet.pause() on ${store}, ${percent}`,
      value: pause_ms[percent],
      unit: 'ms',
      limit: bare_ms[percent],
      note: 'a bare insert, then a bare ring',
      ratio: rounded(pause_ms[percent] / bare_ms[percent]),
    })),
    ...(['web', 'worker'] as const).map((side) => {
      const { statements, redis_sent, round_trips, redis_commands } = per_operation[side]
      const { ledger, queue } = statements
      return {
        figure: `round trips of one operation on ${store}, ${side}`,
        value: round_trips,
        unit: '',
        note: `${ledger} statements of the ledger, ${queue} statements of the queue, ${redis_sent} commands to Redis (${redis_commands} inside of it)`,
      }
    }),
  ]
}
