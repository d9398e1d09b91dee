import net from 'node:net'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { listen } from '../src/db/announce.ts'
import { closePool, openPool } from '../src/pg-pool.ts'
import { createDatabase, type TestDatabase } from './support/database.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createDatabase()
})
afterEach(() => database.drop())

const backendOf = async (client: { query: (text: string) => Promise<{ rows: unknown[] }> }) =>
  ((await client.query('select pg_backend_pid() as pid')).rows[0] as { pid: number }).pid

// The test runner fails on an error event that nobody listens to, as a process would die of it.
test('a connection that breaks between two statements of a transaction fails the next one, and nothing else', async () => {
  const pool = openPool({ connectionString: database.url }, () => {})
  const client = await pool.connect()
  await client.query('begin')
  const pid = await backendOf(client)
  await database.pool.query('select pg_terminate_backend($1)', [pid])
  await expect
    .poll(async () => (await database.pool.query('select from pg_stat_activity where pid = $1', [pid])).rowCount)
    .toBe(0)
  await expect(client.query('commit')).rejects.toThrow()
  client.release(true)
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await closePool(pool)
})

test('a connection that breaks while it idles is told of, and replaced', async () => {
  const lost = Promise.withResolvers<Error>()
  const pool = openPool({ connectionString: database.url }, lost.resolve)
  const pid = await backendOf(pool)
  await database.pool.query('select pg_terminate_backend($1)', [pid])
  expect(await lost.promise).toBeInstanceOf(Error)
  expect(await backendOf(pool)).not.toBe(pid)
  await closePool(pool)
})

test('a pool closes although one of its statements waits for ever', async () => {
  await database.pool.query('create table held ()')
  const holder = await database.pool.connect()
  await holder.query('begin; lock table held')
  const pool = openPool({ connectionString: database.url }, () => {})
  const waiting = pool.query('select from held').catch((error: unknown) => error)
  const waitingForLock = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await expect.poll(async () => (await database.pool.query(waitingForLock)).rowCount).toBe(1)
  await closePool(pool)
  await holder.query('rollback')
  holder.release()
  await waiting
})

test('a connection that idles, or listens, is probed every few seconds, so that it does not outlive its server for hours', async () => {
  const probed = vi.spyOn(net.Socket.prototype, 'setKeepAlive')
  onTestFinished(() => probed.mockRestore())
  const pool = openPool({ connectionString: database.url }, () => {})
  await pool.query('select 1')
  const connected = Promise.withResolvers<void>()
  const unheard = { heard: () => {}, lost: connected.reject }
  const listener = listen({ databaseUrl: database.url, fleet: 'probed', connected: connected.resolve, ...unheard })
  await connected.promise
  expect(probed.mock.calls).toEqual([
    [true, 10_000],
    [true, 10_000],
  ])
  await Promise.all([listener.close(), closePool(pool)])
})
