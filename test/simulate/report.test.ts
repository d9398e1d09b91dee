import { expect, test } from 'vitest'
import { verdict } from '../../simulate/report.ts'
import type { RunResult } from '../../simulate/run.ts'

const ran = (seed: number, violations = 0) => ({ seed, findings: Array(violations).fill({}) }) as unknown as RunResult

test.each([
  { results: [ran(1), ran(2)], failures: [], says: 'nothing was found in 2 seeds' },
  { results: [ran(309)], failures: [], says: 'nothing was found in 1 seed' },
  { results: [ran(1), ran(4, 1)], failures: [], says: '1 violation was found in 1 of 2 seeds: 4' },
  { results: [ran(1), ran(4, 2), ran(7, 1)], failures: [], says: '3 violations were found in 2 of 3 seeds: 4, 7' },
  { results: [ran(1)], failures: [9], says: 'nothing was found in 1 seed; could not be run: 9' },
  { results: [], failures: [], says: 'no seed was run to its end' },
])('the last line is a verdict: $says', ({ results, failures, says }) => {
  const failed = failures.map((seed) => ({ seed, failure: 'it hung' }))
  expect(verdict(results, failed)).toBe(says)
})
