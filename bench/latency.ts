import { setTimeout as sleep } from 'node:timers/promises'
import { openLane } from './lane.ts'
import { moment } from './moment.ts'
import { type Bench, type Result, type Row, STORES, type Store } from './section.ts'
import { type Percentiles, percentiles, rounded } from './statistics.ts'
import { startSubject } from './subject.ts'
import { MEASURED_KINDS } from './subjects/order.ts'

/** Of those who ask first, the time is that of connections being made and code being compiled. */
const WARM_UP = 20
/** Low load: whoever asks right after somebody else waits for the moment that is kept between two notices (`fleet/announcer.ts`). */
const REST_MS = 25

/**
 * From the request to the end of its operation while there is nothing else to do: until it has settled, and until who waits for it
 * has its answer. Beside it the same way of a job of BullMQ that does nothing. One after the other, in turns, with a rest between them.
 */
export async function latency(bench: Bench): Promise<Result> {
  const figures: Record<string, Figures> = {}
  for (const store of STORES) figures[store] = await measure(bench, store)
  return { json: figures, rows: STORES.flatMap((store) => rowsOf(store, figures[store] as Figures)) }
}

type Figures = Record<'settled_ms' | 'answered_ms' | 'bullmq_ms', Percentiles>

async function measure({ servers, sizes }: Bench, store: Store): Promise<Figures> {
  const databaseUrl = await servers.createDatabase(`latency_${store}`)
  const redisUrl = store === 'redis' ? servers.redisUrl : undefined
  const place = (fleet: string) => ({ databaseUrl, redisUrl, fleet: `latency-${fleet}` })
  const [lane, bare] = await Promise.all([openLane(place('ours')), openLane(place('bare'))])
  const [worker, bullmq] = await Promise.all([
    startSubject('worker', place('ours')),
    startSubject('bullmq', place('bare')),
  ])
  const asked: number[] = []
  const answered: number[] = []
  const rung: number[] = []
  const completed: number[] = []
  try {
    const [id] = (await lane.makeRunning(1)) as [string]
    for (let nth = 0; nth < WARM_UP + sizes.latency.requests; nth++) {
      const kind = MEASURED_KINDS[nth % MEASURED_KINDS.length] as (typeof MEASURED_KINDS)[number]
      asked.push(moment())
      const { operation } = await lane.fleet[kind](id, { wait: '30s' })
      answered.push(moment())
      if (operation.status !== 'succeeded') throw new Error(`${operation.id} is ${operation.status}`)
      const completing = bullmq.ask<number>('nextCompletedAt')
      rung.push(moment())
      await bare.ring(kind, 1)
      completed.push(await completing)
      await sleep(REST_MS)
    }
    const settled = await worker.ask<number[]>('settledAt')
    const waits = (ends: number[], starts: number[]) =>
      percentiles(ends.map((end, nth) => end - (starts[nth] as number)).slice(WARM_UP))
    return {
      settled_ms: waits(settled, asked),
      answered_ms: waits(answered, asked),
      bullmq_ms: waits(completed, rung),
    }
  } finally {
    await Promise.all([worker.stop(), bullmq.stop()])
    await Promise.all([lane.close(), bare.close()])
  }
}

function rowsOf(store: Store, { settled_ms, answered_ms, bullmq_ms }: Figures): Row[] {
  const parts = [
    ['request to settled', settled_ms],
    ['request to answered', answered_ms],
  ] as const
  return parts.flatMap(([what, figures]) =>
    (['p50', 'p99'] as const).map((percent) => ({
      figure: `${what} on ${store}, ${percent}`,
      value: figures[percent],
      unit: 'ms',
      limit: bullmq_ms[percent],
      note: 'BullMQ from add to completed',
      ratio: rounded(figures[percent] / bullmq_ms[percent]),
    })),
  )
}
