import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { createFleet } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startPrivateRedis } from '../support/redis.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { uniqueFleet } from '../support/stores.ts'

describe('sandman doctor', () => {
  let database: TestDatabase
  let folder: string
  beforeEach(async () => {
    database = await createDatabase()
    folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-doctor-'))
  })
  afterEach(async () => {
    await database.drop()
    await rm(folder, { recursive: true, force: true })
  })

  async function examine(env: Record<string, string | undefined>) {
    const doctor = new SandmanProcess(['doctor', '--json'], { cwd: folder, env })
    const { code } = await doctor.exited
    const { output } = doctor
    const { findings } = JSON.parse(output) as { findings: { check: string; verdict: string; message: string }[] }
    return { code, verdicts: Object.fromEntries(findings.map(({ check, verdict }) => [check, verdict])), text: output }
  }

  test('finds a healthy deployment healthy', async () => {
    const env = {
      DATABASE_URL: database.url,
      REDIS_URL: inject('redisUrl'),
      SANDMAN_FLEET: uniqueFleet(),
    }
    const worker = new SandmanProcess(['worker'], { cwd: folder, env })
    await worker.logged('process.started')
    const { code, verdicts } = await examine(env)
    const { sweeper = 'ok', ...rest } = verdicts // it may have had its first tick by now
    expect(sweeper).toBe('ok')
    expect(rest).toEqual({
      configuration: 'ok',
      limits: 'ok',
      backend: 'ok',
      database: 'ok',
      'database clock': 'ok',
      migrations: 'ok',
      permissions: 'ok',
      queue: 'ok',
      'queue clock': 'ok',
      workers: 'ok',
    })
    expect(code).toBe(0)
    await worker.stop()
  })

  test('warns when no worker answers, and when Redis may evict', async () => {
    const redis = await startPrivateRedis('--maxmemory-policy', 'volatile-lru')
    try {
      const { code, verdicts } = await examine({ DATABASE_URL: database.url, REDIS_URL: redis.url })
      expect(verdicts).toMatchObject({ workers: 'warning', 'queue memory': 'warning', queue: 'ok' })
      expect(code).toBe(0)
    } finally {
      await redis.stop()
    }
  })

  test('says what ends by itself, and which provider the sweeper does not believe', async () => {
    await database.pool.query(
      `insert into sandman.sweeps (fleet, backend, place, stopped_at, stopped_because)
       values ('default', 'test', 'here', now(), 'half of it has vanished.')`,
    )
    const { code, verdicts, text } = await examine({
      DATABASE_URL: database.url,
      SANDMAN_TTL: 'idle=30m,retention=30d',
    })
    expect(verdicts).toMatchObject({ limits: 'ok', sweeper: 'problem' })
    expect(text).toContain('idle 30 minutes, retention 30 days')
    expect(text).toContain('test at here is stopped: half of it has vanished.')
    expect(code).toBe(1)
  })

  test('warns of sandboxes on a backend that workers which answer have not swept, and not of young ones or swept ones', async () => {
    const name = uniqueFleet()
    const env = { DATABASE_URL: database.url, SANDMAN_FLEET: name }
    const fleet = createFleet({ databaseUrl: database.url, fleet: name })
    try {
      for (const backend of ['e2b', 'e2b', 'docker'] as const) await fleet.spawn({ backend })
    } finally {
      await fleet.close()
    }
    expect((await examine(env)).verdicts).toMatchObject({ workers: 'warning' })
    const worker = new SandmanProcess(['worker'], { cwd: folder, env })
    await worker.logged('process.started')
    expect((await examine(env)).verdicts).not.toHaveProperty('sandboxes')

    // Past the guards: who a sandbox is never changes, and neither does when it was made.
    await database.pool.query(
      `set session_replication_role = replica; update sandman.sandboxes set created_at = now() - interval '1 hour'; reset session_replication_role`,
    )
    await database.pool.query(
      `insert into sandman.sweeps (fleet, backend, place, ticked_at) values
         ($1, 'docker', 'a', now()), ($1, 'docker', 'b', now() - interval '1 day')`,
      [name],
    )
    const { code, verdicts, text } = await examine(env)
    expect(verdicts).toMatchObject({ workers: 'ok', sandboxes: 'warning' })
    expect(text.match(/[^"]*does one have it[^"]*/g)).toEqual([
      '2 sandboxes are on e2b, which no worker has ever swept: does one have it (SANDMAN_BACKENDS), and take the queue sweeper?',
    ])
    expect(code).toBe(0)

    await database.pool.query(`update sandman.sweeps set ticked_at = '2026-01-01' where backend = 'docker'`)
    expect((await examine(env)).text).toContain(
      '1 sandbox is on docker, which no worker has swept since 2026-01-01 00:00:00Z',
    )
    await worker.stop()
  })

  test('finds every problem, not only the first', async () => {
    const { code, verdicts, text } = await examine({
      DATABASE_URL: 'postgres://u:swordfish@127.0.0.1:1/x',
      REDIS_URL: 'redis://127.0.0.1:1',
    })
    expect(verdicts).toMatchObject({ database: 'problem', queue: 'problem' })
    expect(code).toBe(1)
    expect(text).not.toContain('swordfish')
  })

  test('finds missing migrations and missing permissions', async () => {
    const empty = await createDatabase({ migrated: false })
    const role = `reader_${randomUUID().slice(0, 8)}`
    await database.pool.query(`create role ${role} login password 'reader'`)
    try {
      expect(await examine({ DATABASE_URL: empty.url })).toMatchObject({
        code: 1,
        verdicts: { migrations: 'problem', queue: 'problem' },
      })
      await database.pool.query(
        `grant usage on schema sandman to ${role}; grant select on all tables in schema sandman to ${role}`,
      )
      const url = database.url.replace(/\/\/.*@/, `//${role}:reader@`)
      const { verdicts, text } = await examine({ DATABASE_URL: url, REDIS_URL: inject('redisUrl') })
      expect(verdicts).toMatchObject({ database: 'ok', migrations: 'ok', permissions: 'problem' })
      expect(text).toContain('insert, update, delete on sandman.canaries')
    } finally {
      await empty.drop()
      await database.pool.query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})
