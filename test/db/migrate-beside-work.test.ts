import { Kysely, PostgresDialect } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { migrate } from '../../src/db/migrate.ts'
import * as canaries from '../../src/db/migrations/0001_canaries.ts'
import * as ledger from '../../src/db/migrations/0002_ledger.ts'
import * as attempts from '../../src/db/migrations/0003_attempts.ts'
import * as executions from '../../src/db/migrations/0004_executions.ts'
import * as housekeeping from '../../src/db/migrations/0005_housekeeping.ts'
import * as leases from '../../src/db/migrations/0006_leases.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'

const BEFORE: Record<string, Migration> = {
  '0001_canaries': canaries,
  '0002_ledger': ledger,
  '0003_attempts': attempts,
  '0004_executions': executions,
  '0005_housekeeping': housekeeping,
  '0006_leases': leases,
}

let database: TestDatabase
let worker: pg.PoolClient
beforeEach(async () => {
  database = await createDatabase({ migrated: false })
  await migrateAsBefore(database.url)
  worker = await database.pool.connect()
})
afterEach(async () => {
  worker?.release()
  await database?.drop()
})

/** The database as the release before has left it. */
async function migrateAsBefore(url: string): Promise<void> {
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) })
  const { error } = await new Migrator({
    db,
    provider: { getMigrations: async () => BEFORE },
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    migrationTableSchema: 'sandman',
  }).migrateToLatest()
  await db.destroy()
  if (error) throw error
}

/** The migration has come to a table that somebody works with. */
async function seenWaiting(): Promise<void> {
  const waiting = `select from pg_locks join pg_stat_activity using (pid)
    where datname = current_database() and application_name = 'sandman migrate' and locktype = 'relation' and not granted`
  await expect
    .poll(async () => (await database.pool.query(waiting)).rowCount, { interval: 10, timeout: 10_000 })
    .toBe(1)
}

const OPERATIONS = 'update sandman.operations set attempt = attempt'
const SANDBOXES = 'update sandman.sandboxes set waiting = waiting'
const READ = 'select from sandman.sandboxes'

test.each([
  ['operations, then sandboxes, as who settles does', OPERATIONS, SANDBOXES],
  ['sandboxes, then operations, as who asks does', SANDBOXES, OPERATIONS],
  ['sandboxes that were only read before', READ, SANDBOXES],
])('workers go on while the database is migrated, and neither is ended: %s', async (_what, first, second) => {
  const { spawn } = ledgerOn(database.db, { fleet: 'busy', clock })
  const early = (await spawn({ metadata: { owner: 'ada' } })).sandbox.id
  await worker.query('begin')
  await worker.query(first)
  const migrating = migrate(database.url)
  migrating.catch(() => {}) // it is looked at below, also when the worker is the one that was ended
  await seenWaiting()
  const late = (await spawn({ metadata: { owner: 'grace' } })).sandbox.id
  await worker.query(second)
  await worker.query('commit')
  expect(await migrating).toEqual(['0007_glance'])

  const after = (await spawn({ metadata: { owner: 'joan' } })).sandbox.id
  const { rows } = await database.pool.query(
    'select sandbox_id as id, key, value from sandman.tags order by sandbox_id, key',
  )
  const tagsOf = (id: string, owner: string) => [
    { id, key: 'backend', value: 'test' },
    { id, key: 'metadata.owner', value: owner },
  ]
  expect(rows).toEqual([...tagsOf(early, 'ada'), ...tagsOf(late, 'grace'), ...tagsOf(after, 'joan')])
})
