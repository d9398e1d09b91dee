import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { EXECUTIONS_MAX } from '../src/sandbox/executions.ts'
import { inParallel } from './in-parallel.ts'
import { type Lane, openLane } from './lane.ts'
import { moment } from './moment.ts'
import type { Bench, Result } from './section.ts'
import { percentiles, rounded } from './statistics.ts'
import { type Subject, startSubject } from './subject.ts'
import type { Memory } from './subjects/streams.ts'
import { commandOf, stampsIn, type Writing } from './writing-backend.ts'

const AT_ONCE = 16
const FOLLOWED_MS = 60_000
const LOOK_MS = 100
/** Of all that write at their pace, so many are read by somebody. */
const READERS = 20
const FAST_AGENTS = 16
const FAST_BYTES = 64 * 1_024

/**
 * Executions that one worker follows at the same time. Many whose agents write at their pace: how long after it was written can
 * somebody read it, and what each of them needs of memory. Then a few that write as fast as they are read, beside a bare insert
 * of as many bytes.
 */
export async function streams({ servers, sizes }: Bench): Promise<Result> {
  const { concurrent, records, everyMs, bytes, fastMb } = sizes.streams
  const databaseUrl = await servers.createDatabase('streams')
  const place = { databaseUrl, redisUrl: servers.redisUrl, fleet: 'streams' }
  const lane = await openLane(place)
  const worker = await startSubject('streams', place, ['--expose-gc'])
  try {
    const paced = await writeAtTheirPace({ lane, worker, concurrent, writing: { records, bytes, everyMs } })
    const fast = await writeFast(lane, fastMb * 2 ** 20)
    const limit = await insertBare(lane.pool, fastMb * 2 ** 20)
    const ratio = rounded(fast / limit)
    const written = (concurrent * bytes * 1_000) / everyMs
    const kb = (perSecond: number) => rounded(perSecond / 1_024)
    const mb = (perSecond: number) => rounded(perSecond / 2 ** 20)
    return {
      json: { ...paced, fast: { bytes_per_s: Math.round(fast), insert_bytes_per_s: Math.round(limit), ratio } },
      rows: [
        {
          figure: 'executions followed at once',
          value: paced.concurrent,
          unit: '',
          note: `all began within ${paced.started_ms} ms`,
        },
        {
          figure: 'their output together',
          value: kb(paced.bytes_per_s),
          unit: 'KB/s',
          limit: kb(written),
          note: 'what they write',
          ratio: rounded(paced.bytes_per_s / written),
        },
        { figure: 'written to readable, p50', value: paced.delay_ms.p50, unit: 'ms' },
        { figure: 'written to readable, p99', value: paced.delay_ms.p99, unit: 'ms' },
        {
          figure: 'memory of one of them',
          value: paced.memory_per_stream_kb.rss,
          unit: 'KB',
          note: `${paced.memory_per_stream_kb.heap} KB of it in the heap`,
        },
        {
          figure: `output of ${FAST_AGENTS} as fast as it is read`,
          value: mb(fast),
          unit: 'MB/s',
          limit: mb(limit),
          note: 'a bare insert of the same bytes',
          ratio,
        },
      ],
    }
  } finally {
    await worker.stop()
    await lane.close()
  }
}

async function writeAtTheirPace({
  lane,
  worker,
  concurrent,
  writing,
}: {
  lane: Lane
  worker: Subject
  concurrent: number
  writing: Writing
}) {
  const { fleet } = lane
  const idle = await worker.ask<Memory>('memory')
  const askedAt = moment()
  const ids = await execute(lane, concurrent, writing)
  const delays: { writtenAt: number; ms: number }[] = []
  const readers = ids.slice(0, READERS).map(async (id) => {
    for await (const { from, bytes } of fleet.output(id)) {
      const readAt = moment()
      for (const writtenAt of stampsIn(bytes, from, writing.bytes)) delays.push({ writtenAt, ms: readAt - writtenAt })
    }
  })
  const busy = await whenFollowed(worker, concurrent)
  const allAt = moment()
  const keptBefore = await keptBytes(lane)
  await sleep((writing.records * writing.everyMs) / 4) // in which all of them write
  const bytes_per_s = Math.round(((await keptBytes(lane)) - keptBefore) / ((moment() - allAt) / 1_000))
  await Promise.all(readers)
  await assertSucceeded(lane, ids, writing.records * writing.bytes)
  const each = (what: 'rssKb' | 'heapKb') => rounded((busy[what] - idle[what]) / concurrent)
  return {
    concurrent,
    started_ms: Math.round(allAt - askedAt),
    bytes_per_s,
    // What was written before all of them did was written beside their beginnings.
    delay_ms: percentiles(delays.filter(({ writtenAt }) => writtenAt >= allAt).map(({ ms }) => ms)),
    memory_per_stream_kb: { rss: each('rssKb'), heap: each('heapKb') },
  }
}

async function keptBytes({ pool, place }: Lane): Promise<number> {
  const { rows } = await pool.query<{ bytes: number }>(
    'select sum(output_bytes)::float8 as bytes from sandman.executions where fleet = $1',
    [place.fleet],
  )
  return rows[0]?.bytes ?? 0
}

/** Bytes per second. */
async function writeFast(lane: Lane, totalBytes: number): Promise<number> {
  const records = Math.ceil(totalBytes / FAST_AGENTS / FAST_BYTES)
  const beganAt = moment()
  const ids = await execute(lane, FAST_AGENTS, { records, bytes: FAST_BYTES, everyMs: 0 })
  await assertSucceeded(lane, ids, records * FAST_BYTES)
  return (FAST_AGENTS * records * FAST_BYTES) / ((moment() - beganAt) / 1_000)
}

/** As many bytes in pieces of the same size, in statements of the same size, two at a time as a worker does. */
async function insertBare(pool: pg.Pool, totalBytes: number): Promise<number> {
  await pool.query(
    'create table bare_output (id bigint generated always as identity primary key, bytes bytea not null)',
  )
  const piece = randomBytes(FAST_BYTES)
  const batch = Array.from({ length: FAST_AGENTS }, () => piece)
  const statements = Math.ceil(totalBytes / FAST_BYTES / FAST_AGENTS)
  const beganAt = moment()
  await inParallel(Array.from({ length: statements }), 2, () =>
    pool.query('insert into bare_output (bytes) select unnest($1::bytea[])', [batch]),
  )
  return (statements * FAST_AGENTS * FAST_BYTES) / ((moment() - beganAt) / 1_000)
}

async function execute(lane: Lane, count: number, writing: Writing): Promise<string[]> {
  const sandboxIds = await lane.makeRunning(Math.ceil(count / (EXECUTIONS_MAX / 4)))
  const ids: string[] = []
  const command = commandOf(writing)
  const nths = Array.from({ length: count }, (_, nth) => nth)
  await inParallel(nths, AT_ONCE, async (nth) => {
    const { execution } = await lane.fleet.execute(sandboxIds[nth % sandboxIds.length] as string, { command })
    ids.push(execution.id)
  })
  return ids
}

async function whenFollowed(worker: Subject, count: number): Promise<Memory> {
  for (const untilMs = moment() + FOLLOWED_MS; moment() < untilMs; await sleep(LOOK_MS)) {
    const memory = await worker.ask<Memory>('memory')
    if (memory.followed >= count) return memory
  }
  throw new Error(`${count} executions were not followed at once: they ended sooner, or the worker is too slow`)
}

async function assertSucceeded({ fleet }: Lane, ids: readonly string[], bytes: number): Promise<void> {
  await inParallel(ids, AT_ONCE, async (id) => {
    const { execution } = await fleet.execution(id, { wait: '5m' })
    if (execution.status !== 'succeeded' || execution.outputBytes !== bytes)
      throw new Error(
        `${id} is ${execution.status} with ${execution.outputBytes} of ${bytes} bytes: ${execution.message}`,
      )
  })
}
