import type pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { MIGRATIONS, migrate } from '../../src/db/migrate.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'
import { migrateAsBefore } from '../support/older-schema.ts'

let database: TestDatabase
let worker: pg.PoolClient
beforeEach(async () => {
  database = await createDatabase({ migrated: false })
  worker = await database.pool.connect()
})
afterEach(async () => {
  worker?.release()
  await database?.drop()
})

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
const EXECUTIONS = 'update sandman.executions set breaks = breaks'
const CHECKPOINTS = 'update sandman.checkpoints set name = name'
const READ = 'select from sandman.sandboxes'

test.each([
  ['0006_leases', 'operations, then sandboxes, as who settles does', OPERATIONS, SANDBOXES],
  ['0006_leases', 'sandboxes, then operations, as who asks does', SANDBOXES, OPERATIONS],
  ['0006_leases', 'sandboxes that were only read before', READ, SANDBOXES],
  ['0006_leases', 'executions, then sandboxes, as who ends one does', EXECUTIONS, SANDBOXES],
  ['0007_glance', 'sandboxes, then operations, as who asks does', SANDBOXES, OPERATIONS],
  ['0008_guards', 'checkpoints, then sandboxes, as who settles may', CHECKPOINTS, SANDBOXES],
  ['0008_guards', 'sandboxes, then checkpoints, as who puts to sleep does', SANDBOXES, CHECKPOINTS],
  ['0008_guards', 'operations, then sandboxes, as who settles does', OPERATIONS, SANDBOXES],
])(
  'workers go on while the database is migrated from %s, and neither is ended: %s',
  async (last, _what, first, second) => {
    await migrateAsBefore(database.url, last)
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
    expect(await migrating).toEqual(Object.keys(MIGRATIONS).filter((name) => name > last))

    const after = (await spawn({ metadata: { owner: 'joan' } })).sandbox.id
    const { rows } = await database.pool.query(
      'select sandbox_id as id, key, value from sandman.tags order by sandbox_id, key',
    )
    const tagsOf = (id: string, owner: string) => [
      { id, key: 'backend', value: 'test' },
      { id, key: 'metadata.owner', value: owner },
    ]
    expect(rows).toEqual([...tagsOf(early, 'ada'), ...tagsOf(late, 'grace'), ...tagsOf(after, 'joan')])
  },
)
