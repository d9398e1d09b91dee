import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { errorsPage } from '../../printed/errors.ts'
import { ERRORS } from '../../src/errors.ts'
import { FAILURES } from '../../src/sandbox/failures.ts'

test('docs/errors.md is what the tables say', async () => {
  await expect(errorsPage()).toMatchFileSnapshot('../../docs/errors.md')
})

test('every error in the tables is one that something says', async () => {
  const source = path.resolve(import.meta.dirname, '../../src')
  const files = (await readdir(source, { recursive: true })).filter((file) => file.endsWith('.ts'))
  const texts = await Promise.all(
    files
      .filter((file) => !['errors.ts', path.join('sandbox', 'failures.ts')].includes(file))
      .map((file) => readFile(path.join(source, file), 'utf8')),
  )
  const unsaid = [...Object.keys(ERRORS), ...Object.keys(FAILURES)].filter(
    (word) => !texts.some((text) => text.includes(`'${word}'`)),
  )
  expect(unsaid).toEqual([])
})
