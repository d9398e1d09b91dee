import { Kysely, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import pg from 'pg'
import { describeError, isSandmanError, SandmanError } from '../errors.ts'
import { openPool } from '../pg-pool.ts'
import * as canaries from './migrations/0001_canaries.ts'
import * as ledger from './migrations/0002_ledger.ts'
import * as attempts from './migrations/0003_attempts.ts'
import * as executions from './migrations/0004_executions.ts'
import * as housekeeping from './migrations/0005_housekeeping.ts'
import * as leases from './migrations/0006_leases.ts'
import * as glance from './migrations/0007_glance.ts'
import * as guards from './migrations/0008_guards.ts'
import * as backends from './migrations/0009_backends.ts'
import * as givingUp from './migrations/0010_giving_up.ts'
import { type Db, describeDatabase, explainDbError } from './pool.ts'
import { SCHEMA } from './schema.ts'

/**
 * Forward only, in order of name. Listed here and not found by reading the folder, so that the same code runs from
 * sources and from a build.
 */
export const MIGRATIONS: Record<string, Migration> = {
  '0001_canaries': canaries,
  '0002_ledger': ledger,
  '0003_attempts': attempts,
  '0004_executions': executions,
  '0005_housekeeping': housekeeping,
  '0006_leases': leases,
  '0007_glance': glance,
  '0008_guards': guards,
  '0009_backends': backends,
  '0010_giving_up': givingUp,
}

/** Any number: it only has to be the same in every process that migrates. It spells `SAND`. */
export const MIGRATION_LOCK = 0x53414e44

/** How long to wait for the turn. Who waits longer is told, and nothing is lost by trying again. */
const TURN_MS = 300_000

/**
 * Brings the database up to date, and returns the names of what was applied. Any number of processes may do so at once:
 * they take turns, and all but the first find nothing left to do. A database that is newer than this code is left alone,
 * so that an older release can keep running beside a newer one.
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  // One connection of its own: the lock belongs to the session, and a migration may take longer than any statement may.
  const settings = {
    connectionString: databaseUrl,
    max: 1,
    application_name: 'sandman migrate',
    options: `-c lock_timeout=${TURN_MS}`,
    connectionTimeoutMillis: 10_000,
  }
  const pool = openPool(settings, () => {})
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
  try {
    return await db.connection().execute(async (session) => {
      await sql`select pg_advisory_lock(${MIGRATION_LOCK})`.execute(session)
      await ensureSchema(session)
      const applied = await appliedMigrations(session)
      const unknown = applied.filter((name) => !(name in MIGRATIONS))
      if (unknown.length > 0) return refuseOrSkip(unknown, pendingOf(applied))
      return runMigrator(session)
    })
  } catch (error) {
    if (error instanceof SandmanError) throw error
    const explained = explainDbError(error, databaseUrl)
    if (isSandmanError(explained, 'database_unreachable')) throw explained
    // A server that says no has been reached.
    throw new SandmanError(
      error instanceof pg.DatabaseError ? 'database_not_migrated' : 'database_unreachable',
      `${describeDatabase(databaseUrl)} could not be migrated: ${describeError(error)}`,
      { cause: error },
    )
  } finally {
    await db.destroy()
  }
}

/** Not `if not exists`: that needs the right to create schemas even when there is nothing to create. */
async function ensureSchema(session: Kysely<unknown>): Promise<void> {
  const existing = await sql`select from pg_namespace where nspname = ${SCHEMA}`.execute(session)
  if (existing.rows.length === 0) await sql`create schema ${sql.id(SCHEMA)}`.execute(session)
}

/** The migrations of this code that the database does not have yet. */
export async function pendingMigrations(db: Db): Promise<string[]> {
  return pendingOf(await appliedMigrations(db))
}

async function runMigrator(session: Kysely<unknown>): Promise<string[]> {
  const migrator = new Migrator({
    db: session,
    provider: { getMigrations: async () => MIGRATIONS },
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    migrationTableSchema: SCHEMA,
  })
  const { error, results } = await migrator.migrateToLatest()
  if (error) {
    const failed = results?.find((result) => result.status === 'Error')?.migrationName ?? 'a migration'
    throw new SandmanError('database_not_migrated', `${failed} failed and changed nothing: ${describeError(error)}`, {
      cause: error,
    })
  }
  return (results ?? []).map((result) => result.migrationName)
}

async function appliedMigrations(db: Kysely<unknown> | Db): Promise<string[]> {
  const table = `${SCHEMA}.migrations`
  const exists = await sql<{ exists: boolean }>`select to_regclass(${table}) is not null as exists`.execute(
    db as Kysely<unknown>,
  )
  if (!exists.rows[0]?.exists) return []
  const applied = await sql<{ name: string }>`select name from ${sql.table(table)} order by name`.execute(
    db as Kysely<unknown>,
  )
  return applied.rows.map((row) => row.name)
}

function pendingOf(applied: string[]): string[] {
  return Object.keys(MIGRATIONS).filter((name) => !applied.includes(name))
}

function refuseOrSkip(unknown: string[], pending: string[]): string[] {
  if (pending.length === 0) return []
  throw new SandmanError(
    'database_not_migrated',
    `The database has migrations this release does not know (${unknown.join(', ')}) and lacks some that it needs (${pending.join(', ')}): install the release that made them.`,
  )
}
