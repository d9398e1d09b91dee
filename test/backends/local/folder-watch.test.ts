import { getEventListeners } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FolderWatch } from '../../../src/backends/local/folder-watch.ts'
import { CALL } from './setup.ts'

test('what changes while nobody waits is told to who asks next, and only once', async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-watch-'))
  await writeFile(path.join(folder, 'file'), '')
  const [patient, other, hasty] = [60_000, 60_000, 50].map((lookAfterMs) => new FolderWatch(folder, { lookAfterMs }))
  onTestFinished(async () => {
    for (const each of [patient, other, hasty]) each?.close()
    await rm(folder, { recursive: true })
  })
  for (const each of [patient, other]) expect(await each?.next(CALL)).toBe('anything')

  const heard = other?.next(CALL)
  await writeFile(path.join(folder, 'another'), '')
  expect(await heard).toBe('anything') // so both have been told
  expect(await patient?.next(CALL)).toBe('anything')

  // Nothing more has changed, so that only the time ends the waiting.
  const giving = new AbortController()
  const waiting = patient?.next(giving)
  const { signal } = new AbortController()
  expect(await hasty?.next({ signal })).toBe('anything')
  for (let time = 1; time <= 3; time++) expect(await hasty?.next({ signal })).toBe('content')
  expect(getEventListeners(signal, 'abort')).toEqual([])
  giving.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
})
