import { fork } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/postgres.ts'
import { isAlive } from '../../src/embedded/service.ts'

let folder: string
const started: EmbeddedPostgres[] = []

beforeEach(async () => {
  // Private, as mktemp makes it: the user that Postgres runs as cannot enter it.
  folder = path.join(await mkdtemp(path.join(os.tmpdir(), 'sandman-embedded-')), 'data')
})
afterEach(async () => {
  for (const postgres of started.splice(0)) await postgres.stop()
  await rm(path.dirname(folder), { recursive: true, force: true })
})

async function start(options: { folder: string; disposable?: boolean } = { folder }): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres(options)
  started.push(postgres)
  return postgres
}

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

test('what is written is there after a stop and a new start', async () => {
  const first = await start()
  await query(first.url, 'create table remembered as select 42 as answer')
  await first.stop()
  const second = await start()
  expect(await query(second.url, 'select answer from remembered')).toEqual([{ answer: 42 }])
})

test('it listens to this machine only, and asks for a password that only the owner can read', async () => {
  const { url } = await start()
  expect(await query(url, 'show listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }])
  await expect(query(url.replace(/:[^:@]+@/, ':wrong@'), 'select 1')).rejects.toThrow('password authentication failed')
  expect((await stat(path.join(folder, 'postgres-password'))).mode & 0o077).toBe(0)
})

test('a second one on the same folder is refused with a sentence, and the first lives on', async () => {
  const first = await start()
  await expect(startEmbeddedPostgres({ folder })).rejects.toMatchObject({
    code: 'data_folder_in_use',
    message: expect.stringContaining(`Another Sandman is already running on ${folder}`),
  })
  expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
})

test('it ends with its owner, even when the owner is killed, and the next start finds everything', async () => {
  const script = path.resolve(import.meta.dirname, '../support/own-a-postgres.ts')
  const owner = fork(script, [folder], { stdio: 'inherit', execArgv: [] })
  const { url, pid } = await new Promise<{ url: string; pid: number }>((resolve) =>
    owner.once('message', resolve as never),
  )
  await query(url, 'create table remembered as select 42 as answer')
  owner.kill('SIGKILL')
  // It is still stopping when the next one starts, which waits for it.
  const next = await start()
  expect(isAlive(pid)).toBe(false)
  expect(await query(next.url, 'select answer from remembered')).toEqual([{ answer: 42 }])
})

test('a setup that was interrupted is begun anew', async () => {
  await mkdir(path.join(folder, 'postgres', 'base'), { recursive: true })
  const { url } = await start()
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
})

test('a folder that cannot be written to is named', async () => {
  // Root may write anywhere but into the kernel's own file system.
  const readOnly = process.getuid?.() === 0 ? '/sys/sandman' : path.join(path.dirname(folder), 'read-only')
  if (!readOnly.startsWith('/sys')) {
    await mkdir(readOnly)
    await chmod(readOnly, 0o500)
  }
  await expect(startEmbeddedPostgres({ folder: readOnly })).rejects.toMatchObject({
    code: 'data_folder_unusable',
    message: expect.stringContaining(`The data folder ${readOnly} is not writable`),
  })
})

test('a disposable one leaves nothing behind', async () => {
  const scratch = await mkdtemp(path.join(os.tmpdir(), 'sandman-scratch-'))
  await chmod(scratch, 0o755)
  vi.stubEnv('TMPDIR', scratch)
  try {
    const postgres = await start({ folder, disposable: true })
    await postgres.stop()
    expect(await readdir(scratch)).toEqual([])
    await expect(stat(folder)).rejects.toMatchObject({ code: 'ENOENT' })
  } finally {
    vi.unstubAllEnvs()
    await rm(scratch, { recursive: true })
  }
})
