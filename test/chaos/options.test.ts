import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const main = path.resolve(import.meta.dirname, '../../chaos/main.ts')

test.each([
  ['--workers', '1e9', '--workers is a whole number from 1 to 100.'],
  ['--clients', '0', '--clients is a whole number from 1 to 1000.'],
  ['--seed', '', '--seed is a whole number from 0 to 999999999.'],
  ['--for', '99999999d', '--for is a duration above zero, and of a day at most'],
  ['--faults', 'toString', 'There is no fault called toString.'],
])('what cannot be meant is answered with a sentence: %s %s', async (option, value, says) => {
  await expect(promisify(execFile)(process.execPath, [main, `${option}=${value}`])).rejects.toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining(says),
  })
})
