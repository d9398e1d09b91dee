import { glob, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

test('what tests share says nothing to whoever loads it first: one process works on many files, and loads it once', async () => {
  const saying: string[] = []
  for await (const file of glob(`${import.meta.dirname}/**/*.ts`))
    if (!file.endsWith('.test.ts') && /^(before|after)(All|Each)\(/m.test(await readFile(file, 'utf8')))
      saying.push(file)
  expect(saying).toEqual([])
})
