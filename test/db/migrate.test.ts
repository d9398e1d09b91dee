import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterEach, expect, inject, test } from 'vitest'
import { MIGRATION_LOCK, migrate, pendingMigrations } from '../../src/db/migrate.ts'
import { createFleet } from '../../src/fleet/fleet.ts'
import { migrateAll } from '../../src/fleet/migrate.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { drawSchema } from '../support/schema-picture.ts'

const databases: TestDatabase[] = []
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop()
})

async function create(options?: { migrated: boolean }): Promise<TestDatabase> {
  const database = await createDatabase(options)
  databases.push(database)
  return database
}

test('an empty database gets every migration, once', async () => {
  const { db, url } = await create({ migrated: false })
  const pending = await pendingMigrations(db)
  expect(pending).toContain('0001_canaries')
  expect(await migrate(url)).toEqual(pending)
  expect(await pendingMigrations(db)).toEqual([])
  expect(await migrate(url)).toEqual([])
})

test('twenty may migrate at once, and one of them does', async () => {
  const { url } = await create({ migrated: false })
  const events = new RecordedEvents()
  await Promise.all(Array.from({ length: 20 }, () => migrateAll({ databaseUrl: url, redisUrl: undefined }, events)))
  const applied = events.happened.flatMap(({ fields }) => fields.applied as string[])
  expect(events.count('database.migrated')).toBe(20)
  expect(applied).toEqual([...new Set(applied)])
  expect(applied).toContain('0001_canaries')
})

test('while one migrates, the next waits for its turn and touches nothing', async () => {
  const { url, pool } = await create({ migrated: false })
  const other = await pool.connect()
  await other.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
  const migrating = migrate(url)
  const waiting = `select count(*)::int as n from pg_locks join pg_database on pg_database.oid = pg_locks.database
    where datname = current_database() and locktype = 'advisory' and not granted`
  await expect.poll(async () => (await other.query(waiting)).rows).toEqual([{ n: 1 }])
  expect((await other.query(`select from pg_namespace where nspname = 'sandman'`)).rowCount).toBe(0)
  await other.query('select pg_advisory_unlock($1)', [MIGRATION_LOCK])
  other.release()
  expect(await migrating).toContain('0001_canaries')
})

test('a database that a newer release has migrated is left alone', async () => {
  const { db, url } = await create()
  await sql`insert into sandman.migrations (name, timestamp) values ('9999_from_the_future', now())`.execute(db)
  expect(await migrate(url)).toEqual([])
  expect(await pendingMigrations(db)).toEqual([])
})

test('a database from another history is refused with what is missing on both sides', async () => {
  const { db, url } = await create()
  await sql`update sandman.migrations set name = '0001_somebody_elses' where name = '0001_canaries'`.execute(db)
  await expect(migrate(url)).rejects.toMatchObject({
    code: 'database_not_migrated',
    message: expect.stringMatching(/0001_somebody_elses.*0001_canaries/),
  })
})

test('a database that cannot be reached is named, without its password', async () => {
  const url = inject('postgresUrl').replace(/@.*$/, '@127.0.0.1:1/nowhere')
  await expect(migrate(url)).rejects.toMatchObject({
    code: 'database_unreachable',
    message: expect.stringMatching(
      /^Postgres at 127\.0\.0\.1:1\/nowhere does not answer: connect ECONNREFUSED.* Check DATABASE_URL/,
    ),
  })
})

test('a database that cannot be talked to as it is asked for is not one that lacks migrations', async () => {
  await expect(migrate(`${inject('postgresUrl')}?sslmode=require`)).rejects.toMatchObject({
    code: 'database_unreachable',
    message: expect.stringContaining('does not support SSL'),
  })
})

test.each([
  [
    'a password that is not the right one',
    (url: string) => url.replace(/:[^:@]*@/, ':wrong@'),
    'password authentication failed',
  ],
  ['a database that is not there', (url: string) => url.replace(/\/[^/]*$/, '/nowhere'), '"nowhere" does not exist'],
] as const)('%s is not asked for again: it is DATABASE_URL that is to be looked at', async (_name, change, why) => {
  const url = change(inject('postgresUrl'))
  const refused = {
    code: 'database_unreachable',
    message: expect.stringMatching(`does not let us in: .*${why}.*\\. Check DATABASE_URL\\.$`),
  }
  await expect(migrate(url)).rejects.toMatchObject(refused)
  const fleet = createFleet({ databaseUrl: url })
  await expect(fleet.list())
    .rejects.toMatchObject(refused)
    .finally(() => fleet.close())
})

test('who owns the schema may migrate it without the right to make schemas', async () => {
  const { url, pool } = await create({ migrated: false })
  const role = `migrator_${randomBytes(4).toString('hex')}`
  await pool.query(`create role ${role} login password 'migrator'; create schema sandman authorization ${role}`)
  try {
    expect(await migrate(url.replace(/\/\/.*@/, `//${role}:migrator@`))).toContain('0001_canaries')
  } finally {
    await pool.query(`drop owned by ${role}; drop role ${role}`)
  }
})

test('a database that says no has been reached, and says why', async () => {
  const { url, pool } = await create({ migrated: false })
  const role = `guest_${randomBytes(4).toString('hex')}`
  await pool.query(`create role ${role} login password 'guest'`)
  try {
    await expect(migrate(url.replace(/\/\/.*@/, `//${role}:guest@`))).rejects.toMatchObject({
      code: 'database_not_migrated',
      message: expect.stringContaining('permission denied'),
    })
  } finally {
    await pool.query(`drop role ${role}`)
  }
})

test('docs/schema.txt shows the schema as it is', async () => {
  const { url } = await create()
  const picture = `The schema that the migrations make. Printed by the tests: npm test -- -u\n${await drawSchema(url)}`
  await expect(picture).toMatchFileSnapshot('../../docs/schema.txt')
})
