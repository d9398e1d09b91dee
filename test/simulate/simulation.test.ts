import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { runSeeds } from '../../simulate/seeds.ts'
import { TEMPLATE_DATABASE } from '../support/database.ts'
import { isThorough } from '../support/thorough.ts'
import { printed, simulate } from './support.ts'

/** Seconds on a machine that has nothing else to do. */
const LONG_MS = 180_000

/** Some seeds take ten times as long as these, because something in them comes to rest only after an hour. `npm run simulate` takes all. */
const PIECE = isThorough ? [1, 2, 3] : [1]

describe('the simulation', () => {
  test(
    'finds nothing wrong in a small piece of its seeds',
    async () => {
      const results = await simulate(PIECE)
      expect(printed(results)).toEqual([])
      for (const { operations, executions, statements } of results) {
        expect(operations).toBeGreaterThan(10)
        expect(executions).toBeGreaterThan(0)
        expect(statements).toBeGreaterThan(300)
      }
      // Which of them a seed has is its own; that something goes wrong is not.
      const faults = results.flatMap((result) => Object.values(result.faults))
      expect(faults.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(20)
    },
    LONG_MS,
  )

  test(
    'is the same again, happening for happening: in another process, and after other seeds',
    async () => {
      const [[alone], beside] = await Promise.all([simulate([11], { steps: 18 }), simulate([10, 11], { steps: 18 })])
      expect(beside.find(({ seed }) => seed === 11)?.hash).toBe(alone?.hash)
      expect(alone?.hash).toMatch(/^[0-9a-f]{16}$/)
      expect(beside.find(({ seed }) => seed === 10)?.hash).not.toBe(alone?.hash)
    },
    LONG_MS,
  )
})

test(
  'a run that ends its process takes no other with it',
  async () => {
    const sabotage = path.join(import.meta.dirname, 'sabotage', 'dies-once.ts')
    const place = { postgresUrl: inject('postgresUrl'), template: TEMPLATE_DATABASE, processes: 1, steps: 4 }
    try {
      const { results, failures } = await runSeeds({ ...place, seeds: [5, 6, 7], sabotage })
      expect(failures).toEqual([{ seed: 5, failure: expect.stringContaining('ended with code 7') }])
      expect(results.map(({ seed }) => seed)).toEqual([6, 7])
    } finally {
      await rm(path.join(os.tmpdir(), `sandman-dies-once-${process.pid}`), { force: true })
    }
  },
  LONG_MS,
)

/**
 * Which seed shows it depends on every statement of the code; that one of so many does, does not. So `shownBy` is only where it is looked
 * for first: a seed that shows it early, with the code as it is now.
 */
const SEVERAL = Array.from({ length: 30 }, (_, nth) => nth + 1)

test.each([
  {
    sabotage: 'believes-every-checkpoint',
    shownBy: 4,
    notices: 'what nothing stands in the way of is done',
  },
  {
    sabotage: 'ignores-fences',
    shownBy: 7,
    notices: 'fences only grow, and no write carries an old one',
  },
  {
    sabotage: 'rings-once',
    shownBy: 8,
    notices: 'everything that was accepted is settled',
  },
])(
  'the simulation can fail: of a fleet that $sabotage it is noticed that not $notices',
  async ({ sabotage, notices, shownBy }) => {
    const seeds = [shownBy, ...SEVERAL.filter((seed) => seed !== shownBy)]
    const module = path.join(import.meta.dirname, 'sabotage', `${sabotage}.ts`)
    const results = await simulate(seeds, { steps: 30, untilFound: true, sabotage: module })
    expect(results.flatMap(({ findings }) => findings).map(({ rule }) => rule)).toContain(notices)
  },
)
