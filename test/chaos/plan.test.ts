import { expect, test } from 'vitest'
import type { Told } from '../../chaos/diary.ts'
import { DEFAULTS } from '../../chaos/options.ts'
import { FAULTS, planFaults } from '../../chaos/plan.ts'
import { recoveryOf } from '../../chaos/recovery.ts'
import { type Happened, warningsOf } from '../../chaos/shown.ts'

const OPTIONS = { ...DEFAULTS, seed: 1 }
const kindsOf = (options: typeof OPTIONS) => new Set(planFaults(options).map(({ kind }) => kind))

test('the same seed plans the same faults, and another one others', () => {
  expect(planFaults(OPTIONS)).toEqual(planFaults(OPTIONS))
  expect(planFaults(OPTIONS)).not.toEqual(planFaults({ ...OPTIONS, seed: 2 }))
})

test('a short run has every kind of fault, but none that its queues do not have', () => {
  const short = { ...OPTIONS, forMs: 12_000 }
  expect([...kindsOf(short)].sort()).toEqual(Object.keys(FAULTS).sort())
  expect([...kindsOf({ ...short, queues: 'postgres' })].filter((kind) => kind.startsWith('redis'))).toEqual([])
  expect([...kindsOf({ ...short, faults: ['web_killed'] })]).toEqual(['web_killed'])
})

test('workers are killed at their own pace, as long as it goes on', () => {
  const kills = planFaults({ ...OPTIONS, forMs: 5_000 }).filter(({ kind }) => kind === 'worker_killed')
  expect(kills.map(({ atMs }) => atMs)).toEqual([1_000, 2_000, 3_000, 4_000])
})

test('recovery is counted to the last operation that a worker held, and otherwise to the first that was done since', () => {
  type Operation = Parameters<typeof recoveryOf>[1]['operations'][number]
  const operation = (id: string, created: number, settled: number | null, backend = 'local') =>
    ({
      id,
      backend,
      status: 'succeeded',
      outcome: 'done',
      created_at: new Date(created),
      settled_at: settled === null ? null : new Date(settled),
    }) as Operation
  const operations = [
    operation('held early', 500, 3_000),
    operation('held late', 500, 9_000),
    operation('held for ever', 500, null),
    operation('later', 1_500, 2_500),
    operation('later at the provider', 1_600, 6_000, 'e2b'),
  ]
  const at = 1_000
  const fault = { at, healedAt: at, held: [] as string[] }
  const told = [{ web: 1, sentAt: 1_200, answeredAt: 1_300, status: 202 } as Told]
  const recovery = recoveryOf(
    [
      { ...fault, kind: 'worker_killed', held: ['held early', 'held late'] },
      { ...fault, kind: 'worker_killed', held: [] },
      { ...fault, kind: 'worker_stopped', held: ['held for ever'] },
      { ...fault, kind: 'redis_flushed' },
      { ...fault, kind: 'provider_away' },
      { ...fault, kind: 'web_killed', web: 1 },
    ],
    { operations, told },
  )
  expect(recovery.worker_killed).toMatchObject({ faults: 2, measured: 1, maxMs: 8_000 })
  expect(recovery.worker_stopped).toMatchObject({ faults: 1, measured: 0, p50Ms: null, maxMs: null })
  expect(recovery.redis_flushed).toMatchObject({ p50Ms: 1_500 })
  expect(recovery.provider_away).toMatchObject({ p50Ms: 5_000 })
  expect(recovery.web_killed).toMatchObject({ p50Ms: 300 })
  expect(recovery.all).toMatchObject({ faults: 6, measured: 4, p50Ms: 1_500, p99Ms: null, maxMs: 8_000 })
})

test('a result says what it does not show, because it did not happen', () => {
  const done = { spawn: 9, pause: 9, resume: 9, snapshot: 9, kill: 9, destroy: 9, execute: 9 }
  const faults = { web_killed: { planned: 2, inflicted: 1 } }
  const all: Happened = { done, promised: 1, faults, calls: 500, failedCalls: 100 }
  expect(warningsOf(all)).toEqual([])
  const { snapshot: _, ...fewer } = done
  expect(warningsOf({ ...all, done: fewer })).toEqual([expect.stringContaining('no snapshot')])
  expect(warningsOf({ ...all, promised: 0 })).toEqual([expect.stringContaining('nobody was answered')])
  const inVain = { web_killed: { planned: 2, inflicted: 0 } }
  expect(warningsOf({ ...all, faults: inVain })).toEqual([expect.stringContaining('web_killed')])
  expect(warningsOf({ ...all, calls: 3, failedCalls: 0 })).toHaveLength(2)
})
