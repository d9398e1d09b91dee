import { expect, test } from 'vitest'
import { run } from '../examples/run.ts'

/** The suite is for any test runner: this one is Node's own, as a backend outside of this repository would use it. */
test('the example passes the whole suite', { timeout: 300_000 }, async () => {
  const { ended } = run(process.execPath, ['--test', '--test-reporter=tap', 'boxes/conformance.test.ts'])
  const { code, printed } = await ended
  expect(printed.split('\n').filter((line) => line.trim().startsWith('not ok'))).toEqual([])
  expect(code, printed).toBe(0)
  expect(Number(/^# pass (\d+)$/m.exec(printed)?.[1])).toBeGreaterThan(70)
})
