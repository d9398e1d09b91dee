import { expect, test } from 'vitest'
import { SLOW_MS } from '../../src/backends/answer.ts'
import { PATIENCE } from '../../src/jobs/patience.ts'

test('a request that a provider takes its time for is given up by the job that has asked, and by nobody before', () => {
  expect(SLOW_MS).toBe(Math.max(...Object.values(PATIENCE.callMs)))
})
