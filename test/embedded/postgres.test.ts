import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/postgres.ts'
import { isAlive } from '../../src/process-identity.ts'

const OWNER = path.resolve(import.meta.dirname, '../support/own-a-postgres.ts')
const owned = (owner: ChildProcess) =>
  new Promise<{ url: string; pid: number }>((resolve) => owner.once('message', resolve as never))

/** Private, as mktemp makes it: the user that Postgres runs as cannot enter it. */
const makeFolder = async () => path.join(await mkdtemp(path.join(os.tmpdir(), 'sandman-embedded-')), 'data')

let folder: string
const started: EmbeddedPostgres[] = []

beforeEach(async () => {
  const own = await makeFolder()
  folder = own
  return async () => {
    for (const postgres of started.splice(0)) await postgres.stop()
    await rm(path.dirname(own), { recursive: true, force: true })
  }
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

test('a setup that was killed is begun anew, at whichever moment it was killed', async () => {
  const names = async (...parts: string[]): Promise<string[]> => readdir(path.join(folder, ...parts)).catch(() => [])
  const setup = async () => (await names()).find((name) => name.startsWith('setup-')) ?? 'none'
  const moments = [
    async () => (await setup()) !== 'none',
    async () => (await names(await setup(), 'data')).includes('base'),
    async () => (await names(await setup(), 'data', 'global')).includes('pg_control'),
    async () => (await names()).includes('postgres'),
  ]
  for (const hasCome of moments) {
    const owner = fork(OWNER, [folder], { stdio: 'ignore', execArgv: [], detached: true })
    await expect.poll(hasCome, { interval: 2, timeout: 20_000 }).toBe(true)
    process.kill(-(owner.pid as number), 'SIGKILL') // with its initdb, as a terminal that closes would
    await new Promise((resolve) => owner.once('exit', resolve))
  }
  const { url } = await start()
  expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  const left = (await readdir(folder)).filter((name) => name !== 'copies.json').sort()
  expect(left).toEqual(['lock', 'postgres', 'postgres.log'])
})

test('of several first starts at once one wins, and the others are told', async () => {
  const starting = [0, 1, 2].map(() => startEmbeddedPostgres({ folder }))
  const results = await Promise.allSettled(starting)
  const [winner, ...others] = results.filter((result) => result.status === 'fulfilled')
  started.push(winner?.value as EmbeddedPostgres)
  expect(others).toEqual([])
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'data_folder_in_use' })
  }
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

describe('on a folder that was set up before', () => {
  let kept: string
  beforeAll(async () => {
    kept = await makeFolder()
    await (await startEmbeddedPostgres({ folder: kept })).stop()
  })
  beforeEach(() => {
    folder = kept
  })
  afterAll(() => rm(path.dirname(kept), { recursive: true, force: true }))

  test('what is written is there after a stop and a new start', async () => {
    const first = await start()
    await query(first.url, 'create table a_stop as select 42 as answer')
    await first.stop()
    const second = await start()
    expect(await query(second.url, 'select answer from a_stop')).toEqual([{ answer: 42 }])
  })

  test('it keeps its port, so that apps which know its URL go on, unless somebody else has taken it', async () => {
    const first = await start()
    await first.stop()
    const second = await start()
    expect(second.url).toBe(first.url)
    await second.stop()
    const other = net.createServer().listen(Number(new URL(first.url).port), '127.0.0.1')
    await once(other, 'listening')
    try {
      const third = await start()
      expect(third.url).not.toBe(first.url)
      expect(await query(third.url, 'select 1 as one')).toEqual([{ one: 1 }])
    } finally {
      other.close()
    }
  })

  test('it listens to this machine only, and asks for a password that only the owner can read', async () => {
    const { url } = await start()
    expect(await query(url, 'show listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }])
    await expect(query(url.replace(/:[^:@]+@/, ':wrong@'), 'select 1')).rejects.toThrow(
      'password authentication failed',
    )
    expect((await stat(path.join(folder, 'postgres', 'password'))).mode & 0o077).toBe(0)
  })

  test('a second one on the same folder is refused with a sentence, and the first lives on', async () => {
    const first = await start()
    await expect(startEmbeddedPostgres({ folder })).rejects.toMatchObject({
      code: 'data_folder_in_use',
      message: expect.stringContaining(`Another Sandman (process ${process.pid}) is already running on ${folder}`),
    })
    expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('it ends with its owner, even when the owner is killed, and the next start finds everything', async () => {
    const owner = fork(OWNER, [folder], { stdio: 'inherit', execArgv: [] })
    const { url, pid } = await owned(owner)
    await query(url, 'create table a_kill as select 42 as answer')
    owner.kill('SIGKILL')
    await new Promise((resolve) => owner.once('exit', resolve))
    // Postgres is still stopping when the next one starts, which waits for it.
    const next = await start()
    expect(isAlive(pid)).toBe(false)
    expect(await query(next.url, 'select answer from a_kill')).toEqual([{ answer: 42 }])
  })

  test('a database is never removed, whatever else is missing', async () => {
    const first = await start()
    await query(first.url, 'create table a_loss as select 42 as answer')
    await first.stop()
    const password = path.join(folder, 'postgres', 'password')
    await rename(password, `${password}.lost`)
    await expect(startEmbeddedPostgres({ folder })).rejects.toMatchObject({
      code: 'embedded_postgres_failed',
      message: expect.stringContaining('its file "password" cannot be read: put it back'),
    })
    await rename(`${password}.lost`, password)
    const second = await start()
    expect(await query(second.url, 'select answer from a_loss')).toEqual([{ answer: 42 }])
  })

  test('a Postgres that lost owner and keeper is stopped by the next start', async () => {
    const owner = fork(OWNER, [folder], { stdio: 'inherit', execArgv: [] })
    const { pid } = await owned(owner)
    const keeper = Number(/\) \S (\d+)/.exec(await readFile(`/proc/${pid}/stat`, 'utf8'))?.[1])
    process.kill(keeper, 'SIGKILL')
    owner.kill('SIGKILL')
    await new Promise((resolve) => owner.once('exit', resolve))
    expect(isAlive(pid)).toBe(true)
    const { url } = await start()
    expect(isAlive(pid)).toBe(false)
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('it outlives its log', async () => {
    const { url } = await start()
    await rm(path.join(folder, 'postgres.log'))
    await expect(query(url, 'select nonsense')).rejects.toThrow('nonsense') // is logged
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  })
})
