import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { perOperation, rowsOf } from '../../bench/enqueue.ts'
import { runSections } from '../../bench/run.ts'
import type { Bench, Row } from '../../bench/section.ts'
import { statementsOf } from '../../bench/statements.ts'
import { median, percentile } from '../../bench/statistics.ts'
import { tableOf } from '../../bench/table.ts'

const root = path.join(import.meta.dirname, '..', '..')
const main = path.join(root, 'bench', 'main.ts')

/** Says how it ended instead of throwing. */
async function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const compiled = path.join(root, 'node_modules', '.cache', 'sandman-bench')
  const env = { ...process.env, NODE_COMPILE_CACHE: compiled }
  return promisify(execFile)(process.execPath, [main, ...args], { env, timeout: 110_000 }).then(
    (ended) => ({ code: 0, ...ended }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  )
}

describe('npm run bench', () => {
  test('prints one object, in which every figure stands beside its limit', { timeout: 120_000 }, async () => {
    const { code, stdout, stderr } = await bench('operations', 'housekeeping', '--tiny', '--json')
    expect(code, stderr).toBe(0)
    const printed = JSON.parse(stdout)
    expect(printed).toMatchObject({ date: expect.any(String), commit: expect.any(String), machine: expect.any(String) })
    expect(Object.keys(printed.operations)).toEqual(['redis', 'postgres'])
    for (const figures of Object.values<Record<string, number>>(printed.operations)) {
      const { ops_per_s = 0, bullmq_per_s = 0, sql_per_s = 0, efficiency } = figures
      expect(efficiency).toBeCloseTo(ops_per_s * (1 / bullmq_per_s + 1 / sql_per_s), 1)
      expect(Object.keys(figures)).toEqual(expect.arrayContaining(['by_kind', 'cores_ms_per_op']))
    }
    for (const who of ['reaper', 'sweeper']) {
      for (const cost of Object.values(printed.housekeeping[who])) {
        const any = expect.any(Number)
        expect(cost).toMatchObject({ ms: any, rows: any, statements: any, growth: { ms: any, rows: any } })
      }
    }
    const all = numbersIn({ operations: printed.operations, housekeeping: printed.housekeeping })
    expect(all.length).toBeGreaterThan(40)
    // Not a number, and endless, are null in JSON.
    for (const [where, figure] of all)
      if (/\b(idle|others)$/.test(where)) expect(figure, where).toBeGreaterThanOrEqual(0)
      else expect(figure, where).toBeGreaterThan(0)
  })

  test.each([
    [['nothing-of-that-name'], 'There is no section nothing-of-that-name.'],
    [['toString'], 'There is no section toString.'],
    [['--fast'], "Unknown option '--fast'"],
  ])('refuses %j, and says how it is called', async (args, because) => {
    const { code, stdout, stderr } = await bench(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(because)
    expect(stderr).toContain('npm run bench -- [section …]')
  })

  test('goes on after a section that fails, and says which did', async () => {
    const row: Row = { figure: 'one', value: 1, unit: '/s' }
    const run = await runSections(
      new Map([
        ['broken', () => Promise.reject(new Error('a store is away'))],
        ['whole', async () => ({ json: { ops_per_s: 1 }, rows: [row] })],
      ]),
      {} as Bench,
    )
    expect(run).toEqual({ results: { whole: { ops_per_s: 1 } }, rows: [row], failed: { broken: 'a store is away' } })
  })

  test('says of each figure that has a goal whether it is met', () => {
    const figure = { figure: 'operations', value: 90, unit: '/s', limit: 100, note: 'BullMQ' }
    const rows = [
      { ...figure, ratio: 0.9, goal: { atLeast: 0.9 } },
      { ...figure, ratio: 0.89, goal: { atLeast: 0.9 } },
      { figure: 'growth', value: 3, unit: '', ratio: 1.3, goal: { atMost: 1.2 } },
      { figure: 'memory', value: 3, unit: 'MB' },
    ]
    const [head, ...lines] = tableOf(rows)
    expect(head).toEqual(['figure', 'value', 'beside', 'ratio', 'goal', 'note'])
    expect(lines).toEqual([
      ['operations', '90 /s', '100 /s', '0.9', '≥ 0.9 met', 'BullMQ'],
      ['operations', '90 /s', '100 /s', '0.89', '≥ 0.9 missed', 'BullMQ'],
      ['growth', '3', '', '1.3', '≤ 1.2 missed', ''],
      ['memory', '3 MB', '', '', '', ''],
    ])
  })
})

describe('what a figure is made of', () => {
  test('the parts of the round trips that are told add up to them', () => {
    const times = { p50: 1, p99: 1 }
    const web = perOperation({ ledger: 300, queue: 0, redis: 300 }, 2_700, 300)
    const worker = perOperation({ ledger: 631, queue: 334, redis: 332 }, 9_600, 300)
    const rows = rowsOf('redis', { pause_ms: times, bare_ms: times, per_operation: { web, worker } })
    const told = rows.filter(({ figure }) => figure.startsWith('round trips'))
    expect(told.map(({ value, note }) => [value, note])).toEqual([
      [2, '1 statements of the ledger, 0 statements of the queue, 1 commands to Redis (9 inside of it)'],
      [4.32, '2.1 statements of the ledger, 1.11 statements of the queue, 1.11 commands to Redis (32 inside of it)'],
    ])
  })

  test('the statements of an operation are those of the ledger, for whichever operation', async () => {
    const { take, settle } = await statementsOf('resume', 'bench')
    expect(take.text).toContain('/* take */')
    expect(take.values({ operationId: 'op_1' })).toContainEqual(['op_1'])
    expect(settle.text).toContain('/* settle */')
    const values = settle.values({ operationId: 'op_1', fence: 7, providerRef: 'vm-1' })
    expect(values).toContainEqual(['op_1'])
    const [ending] = values[0] as [string]
    expect(JSON.parse(ending)).toMatchObject({ of_operation: 'op_1', of_fence: 7, to_ref: 'vm-1' })
    expect(values).not.toContain(undefined)
  })

  test('a percentile is one of the values, and nothing has none', () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index)
    expect([percentile(values, 50), percentile(values, 99), percentile(values, 100)]).toEqual([50, 99, 100])
    expect(median([3, 1, 2])).toBe(2)
    expect(() => median([])).toThrow('nothing was measured')
  })
})

/** All that is measured, with the way to it. */
function numbersIn(value: unknown, where = ''): [string, unknown][] {
  if (typeof value !== 'object' || value === null) return [[where, value]]
  return Object.entries(value).flatMap(([key, inner]) => numbersIn(inner, `${where}.${key}`))
}
