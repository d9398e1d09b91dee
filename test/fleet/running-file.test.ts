import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { findDatabase, findRunning, writeRunningFile } from '../../src/fleet/running-file.ts'

const DATABASE_URL = 'postgres://sandman@127.0.0.1:1/sandman'

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-running-'))
  file = path.join(folder, 'running.json')
})
afterEach(() => rm(folder, { recursive: true }))

test('a sandman dev that runs is found by the file that it has written, which nobody else may read', async () => {
  await writeFile(file, 'half of', { mode: 0o644 }) // left by one that died
  await writeRunningFile(folder, DATABASE_URL)
  expect(await findRunning(folder)).toMatchObject({ pid: process.pid, databaseUrl: DATABASE_URL })
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(await readdir(folder)).toEqual(['running.json'])
})

// Elsewhere the system does not say when a process began.
test.runIf(process.platform === 'linux')(
  'one that was killed is not taken for the program that has got its pid since',
  async () => {
    await writeRunningFile(folder, DATABASE_URL)
    const written = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
    await writeFile(file, JSON.stringify({ ...written, born: 'long before' }))
    expect(await findRunning(folder)).toBeUndefined()
    const config = parseConfig({ SANDMAN_DATA: folder })
    await expect(findDatabase(config)).rejects.toThrow(`no "sandman dev" is running on ${folder}`)
  },
)

test.each([
  ['nothing', ''],
  ['half of it', '{"pid":1,'],
  ['a pid without a birth', '{"pid":999999999,"databaseUrl":"x"}'],
])('a file with %s in it is nobody’s', async (_what, content) => {
  await writeFile(file, content)
  expect(await findRunning(folder)).toBeUndefined()
})
