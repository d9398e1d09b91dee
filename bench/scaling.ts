import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Lane, openLane } from './lane.ts'
import { type Bench, type Result, type Row, STORES, type Store } from './section.ts'
import { median, rounded } from './statistics.ts'
import { type Subject, startSubject } from './subject.ts'
import type { Progress } from './subjects/order.ts'

const WORKERS = [1, 2, 4, 8]
const LOOK_MS = 20
const DRAIN_MS = 300_000

/**
 * The rate of several workers together, as a multiple of what one does: until the cores are full, which the stores need too. Each
 * measurement is of sandboxes of its own, after one that nobody looks at, because the workers that have joined are cold.
 */
export async function scaling(bench: Bench): Promise<Result> {
  const figures: Record<string, Figures> = {}
  for (const store of STORES) figures[store] = await measure(bench, store)
  const cores = os.availableParallelism()
  return { json: { cores, ...figures }, rows: STORES.flatMap((store) => rowsOf(store, figures[store] as Figures)) }
}

type Figures = Record<string, { ops_per_s: number; times: number }>

async function measure({ servers, sizes }: Bench, store: Store): Promise<Figures> {
  const { sandboxes, rounds, workersMax } = sizes.scaling
  const databaseUrl = await servers.createDatabase(`scaling_${store}`)
  const redisUrl = store === 'redis' ? servers.redisUrl : undefined
  const place = { databaseUrl, redisUrl, fleet: 'scaling' }
  const lane = await openLane(place)
  const workers: Subject[] = []
  const figures: Figures = {}
  try {
    for (const count of WORKERS.filter((each) => each <= workersMax)) {
      const missing = Array.from({ length: count - workers.length }, () => startSubject('worker', place))
      workers.push(...(await Promise.all(missing)))
      await drain(lane, workers, sandboxes)
      await lane.tidyUp()
      const rates: number[] = []
      for (let round = 0; round < rounds; round++) rates.push(await drain(lane, workers, sandboxes))
      const ops_per_s = rounded(median(rates), 4)
      figures[count] = { ops_per_s, times: rounded(ops_per_s / (figures[1]?.ops_per_s ?? ops_per_s)) }
    }
    return figures
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()))
    await lane.close()
  }
}

async function drain(lane: Lane, workers: readonly Subject[], count: number): Promise<number> {
  const ids = await lane.makeRunning(count)
  await lane.closeQueue('pause')
  await lane.request('pause', ids)
  await Promise.all(workers.map((worker) => worker.ask('begin')))
  await lane.openQueue('pause')
  for (const untilMs = performance.now() + DRAIN_MS; performance.now() < untilMs; await sleep(LOOK_MS)) {
    const progress = await Promise.all(workers.map((worker) => worker.ask<Progress>('progress')))
    if (progress.reduce((sum, each) => sum + each.count, 0) < count) continue
    const beganAt = Math.min(...progress.flatMap((each) => each.beganAt ?? []))
    const endedAt = Math.max(...progress.flatMap((each) => each.endedAt ?? []))
    return (count / (endedAt - beganAt)) * 1_000
  }
  throw new Error(`${count} operations were not done in time`)
}

function rowsOf(store: Store, figures: Figures): Row[] {
  return Object.entries(figures).map(([count, { ops_per_s, times }]) => ({
    figure: `${count} ${count === '1' ? 'worker' : 'workers'} on ${store}`,
    value: ops_per_s,
    unit: '/s',
    limit: rounded((figures[1]?.ops_per_s ?? 0) * Number(count), 4),
    note: `${count} times one worker; ${os.availableParallelism()} cores for all of them and the stores`,
    ratio: rounded(times / Number(count)),
  }))
}
