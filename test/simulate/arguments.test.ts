import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const MAIN = path.resolve('simulate/main.ts')

test.each([
  { given: ['--seeds', '9..3'], says: '--seeds 9..3 ends before it begins.' },
  { given: ['--seeds', 'many'], says: '--seeds must be such as 1..1000, and not "many".' },
  { given: ['--seed', '-1'], says: '' },
  { given: ['--seed', '1', '--seeds', '1..2'], says: '--seed and --seeds do not go together.' },
  { given: ['--piece', '3/2'], says: '--piece must be such as 2/10, and not "3/2".' },
  { given: ['--seed', '3', '--piece', '2/2'], says: '--piece 2/2 has no seeds: of 1 there is none left for it.' },
  { given: ['--steps', '0'], says: '--steps 0 asks for nothing: it must be 1 or more.' },
  { given: ['--seeds', '1..2', '--trace'], says: '--trace is for one seed: say which with --seed.' },
])('what cannot be meant is answered with a sentence: $given', async ({ given, says }) => {
  const refused = await run(process.execPath, [MAIN, ...given]).then(
    () => undefined,
    (error: { code: number; stderr: string }) => error,
  )
  expect(refused?.code).toBe(2)
  expect(refused?.stderr).toContain(says)
  expect(refused?.stderr).toContain('usage: npm run simulate')
})
