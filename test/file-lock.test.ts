import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { lockFolder } from '../src/file-lock.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-lock-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const writeLock = (content: unknown) => writeFile(path.join(folder, 'lock'), JSON.stringify(content))

test('one at a time has the folder, and the others learn who', async () => {
  const results = await Promise.all(Array.from({ length: 10 }, () => lockFolder(folder)))
  const [lock, ...more] = results.filter((result) => typeof result !== 'number')
  expect(more).toEqual([])
  expect(results.filter((result) => result === process.pid)).toHaveLength(9)
  await lock?.release()
  expect(await readdir(folder)).toEqual([])
  expect(await lockFolder(folder)).not.toBeTypeOf('number')
})

test.each([
  ['of a process that is gone', { pid: 2 ** 22 - 1, born: '1' }],
  ['of an earlier process with the pid of a living one', { pid: process.pid, born: 'another time' }],
  ['that cannot be read', 'nonsense'],
])('a lock %s is taken over, by one of those who want it', async (_what, content) => {
  await writeLock(content)
  const results = await Promise.all(Array.from({ length: 10 }, () => lockFolder(folder)))
  expect(results.filter((result) => typeof result !== 'number')).toHaveLength(1)
})

test('a zombie holds nothing', async () => {
  // A parent that never asks for its child's end: what happens in a container whose first process is no init.
  const parent = spawn('sh', ['-c', 'sleep 0.2 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    const zombie = Number(await firstLine(parent))
    const stat = async () => (await readFile(`/proc/${zombie}/stat`, 'utf8')).split(' ')
    await expect.poll(async () => (await stat())[2]).toBe('Z')
    await writeLock({ pid: zombie, born: (await stat())[21] })
    expect(await lockFolder(folder)).not.toBeTypeOf('number')
  } finally {
    parent.kill('SIGKILL')
  }
})

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => child.stdout?.once('data', (bytes: Buffer) => resolve(bytes.toString())))
}
