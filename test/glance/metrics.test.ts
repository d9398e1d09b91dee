import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { addTallies, pruneTallies, readTallies, readTrends, TREND_KEEP_MS } from '../../src/db/tallies.ts'
import { Events } from '../../src/events.ts'
import { METRICS } from '../../src/fleet/metric-table.ts'
import { Tally } from '../../src/fleet/tally.ts'
import { createFleet } from '../../src/index.ts'
import { createApp } from '../../src/web/app.ts'
import { endOf, work } from '../executions/setup.ts'
import { stoppedClock } from '../support/clock.ts'
import { RecordedEvents } from '../support/events.ts'
import { HERE } from '../support/here.ts'
import { createWorld, type World } from '../support/world.ts'
import { parseMetrics } from './parse-metrics.ts'

let world: World
beforeAll(async () => {
  world = await createWorld('postgres')
})
afterAll(() => world?.end())

test('what workers and apps have done is told by a web process that did none of it', async () => {
  const worker = await world.startWorker()
  const sandbox = await world.running()
  const { id } = sandbox
  const { execution, agent } = await work(world, { sandbox })
  agent.write('hello')
  agent.exit({ exitCode: 0 })
  await endOf(world, execution)
  await world.fleet.pause(id, { wait: '30s' })
  await world.fleet.pause(id)
  await world.fleet.resume(id, { wait: '30s' })
  await world.fleet.destroy(id, { wait: '30s' })
  const { operation } = await world.fleet.pause(id)
  expect(operation.status).toBe('refused')
  await worker.stop()
  await world.fleet.close()

  const web = createFleet(world.place)
  try {
    const app = createApp(web)
    const response = await app.request('http://127.0.0.1/metrics', { headers: { host: '127.0.0.1' } }, HERE)
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const { metrics, value } = parseMetrics(await response.text())
    expect(metrics.map(({ name }) => name)).toEqual(Object.keys(METRICS))
    const of = { backend: 'test' }
    const operations = (labels: Record<string, string>) => value('sandman_operations_total', { ...of, ...labels })
    expect(operations({ kind: 'spawn', outcome: 'done', error_type: 'none' })).toBe(1)
    expect(operations({ kind: 'pause', outcome: 'done', error_type: 'none' })).toBe(1)
    expect(operations({ kind: 'pause', outcome: 'already_done', error_type: 'none' })).toBe(1)
    expect(operations({ kind: 'pause', outcome: 'refused', error_type: 'sandbox_gone' })).toBe(1)
    expect(value('sandman_operation_duration_seconds_count', { ...of, kind: 'resume' })).toBe(1)
    expect(value('sandman_executions_total', { ...of, status: 'succeeded', reason: 'completed' })).toBe(1)
    expect(value('sandman_execution_finalization_seconds_count', of)).toBe(1)
    expect(value('sandman_state_duration_seconds_count', { ...of, state: 'running' })).toBe(2)
    expect(value('sandman_state_duration_seconds_count', { ...of, state: 'suspended' })).toBe(1)
    expect(value('sandman_state_duration_seconds_count', { ...of, state: 'pausing' })).toBe(1)
    expect(value('sandman_provider_calls_total', { ...of, call: 'suspend', answer: 'ok' })).toBe(1)
    expect(value('sandman_jobs_total', { queue: 'resume', result: 'done' })).toBe(1)
    expect(value('sandman_up', { check: 'queue' })).toBe(1)
    expect(value('sandman_queue_oldest_seconds', { queue: 'resume' })).toBe(0)
    expect(value('sandman_invariant_violations', { invariant: 'one_active' })).toBe(0)

    const overview = await web.overview()
    expect(overview.resumes).toMatchObject({ succeeded: 1, failed: [] })
    expect(overview.resumes.p95Ms).toBeGreaterThan(0)
    expect(overview.trends[0]?.values.at(-1)).toBeGreaterThanOrEqual(5)
  } finally {
    await web.close()
  }
})

test('what could not be written down is kept, and written the next time', async () => {
  const events = new RecordedEvents()
  const { db } = world
  const tally = new Tally({ db, fleet: 'kept', clock, events })
  await sql`alter table sandman.tallies rename to away`.execute(db)
  const answered = (durationMs: number) =>
    events.emit('provider.answered', { backend: 'test', call: 'look', durationMs })
  events.emit('request.failed')
  answered(5)
  const flushing = tally.flush()
  await Promise.resolve() // by now it is on its way, and what happens is counted for the next time
  answered(7)
  answered(700)
  await flushing
  expect(events.count('tally.not_added')).toBe(1)
  events.emit('request.failed')
  await sql`alter table sandman.away rename to tallies`.execute(db)
  await tally.close(5_000)
  const look = { backend: 'test', call: 'look' }
  expect(await readTallies(db, 'kept')).toEqual([
    { name: 'sandman_provider_call_duration_seconds_bucket', labels: { ...look, le: '0.01' }, value: 2 },
    { name: 'sandman_provider_call_duration_seconds_bucket', labels: { ...look, le: '1' }, value: 1 },
    { name: 'sandman_provider_call_duration_seconds_sum', labels: look, value: expect.closeTo(0.712) },
    { name: 'sandman_provider_calls_total', labels: { ...look, answer: 'ok' }, value: 3 },
    { name: 'sandman_requests_failed_total', labels: {}, value: 2 },
  ])
})

test('executions that are rung for again at once are each counted, as operations are', async () => {
  const events = new Events()
  const tally = new Tally({ db: world.db, fleet: 'rung', clock, events })
  events.emit('operation.rung_again', { operationId: 'opn_1' })
  events.emit('execution.rung_again', { executionIds: ['exe_1', 'exe_2', 'exe_3'] })
  await tally.close(5_000)
  expect(await readTallies(world.db, 'rung')).toEqual([
    { name: 'sandman_operations_rung_again_total', labels: {}, value: 4 },
  ])
})

test('there are only as many series as there are words, whatever an event says', async () => {
  const events = new Events()
  const tally = new Tally({ db: world.db, fleet: 'words', clock, events })
  for (let nth = 0; nth < 100; nth++)
    events.emit('operation.answered', { kind: `kind ${nth}`, backend: 'test', outcome: 'done', errorType: `"${nth}\n` })
  await tally.close(5_000)
  const [series, ...more] = await readTallies(world.db, 'words')
  expect(series).toMatchObject({ labels: { kind: 'other', error_type: 'other' }, value: 100 })
  expect(more).toEqual([])
})

test('many who add the same at once never wait for each other in a circle', async () => {
  const names = Array.from({ length: 50 }, (_, nth) => `n${nth}`)
  const shuffled = () => names.toSorted(() => Math.random() - 0.5)
  const add = () =>
    addTallies(world.db, {
      fleet: 'crowd',
      clock,
      counted: shuffled().map((name) => ({ name, labels: { name }, value: 1, trend: true })),
    })
  await Promise.all(Array.from({ length: 40 }, add))
  const counted = await readTallies(world.db, 'crowd')
  expect(counted).toHaveLength(names.length)
  expect(new Set(counted.map(({ value }) => value))).toEqual(new Set([40]))
})

test('trends are forgotten after a week, and what was counted in all is not', async () => {
  const fleet = 'old'
  const counted = [{ name: 'some', labels: {}, value: 1, trend: true }]
  const long = stoppedClock(new Date(Date.now() - TREND_KEEP_MS - 3_600_000).toISOString())
  await addTallies(world.db, { fleet, counted, clock: long })
  await addTallies(world.db, { fleet, counted, clock })
  const { forgotten } = await pruneTallies(world.db, { fleet, olderThanMs: TREND_KEEP_MS, max: 100, clock })
  expect(forgotten).toBe(1)
  expect(await readTallies(world.db, fleet)).toEqual([{ name: 'some', labels: {}, value: 2 }])
  const asked = { fleet, withinMs: 2 * TREND_KEEP_MS, everyMs: 900_000, clock }
  expect(await readTrends(world.db, asked)).toMatchObject([{ name: 'some', value: 1 }])
})
