import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { describeError, SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { closePool, openPool } from '../pg-pool.ts'
import { PreparingClient } from './prepared.ts'
import { type Database, SCHEMA } from './schema.ts'

export type Db = Kysely<Database>

/** Bounds of every statement. A database that hangs costs these, and never a process. */
const CONNECT_MS = 5_000
const STATEMENT_MS = 30_000
const DEAD_CLIENT_MS = 1_000

type DbOptions = { databaseUrl: string; applicationName: string; events: Events; connectionsMax?: number }

export type DbHandle = { db: Db; pool: pg.Pool; close(withinMs?: number): Promise<void> }

export function openDb({ databaseUrl, applicationName, events, connectionsMax = 10 }: DbOptions): DbHandle {
  const pool = openPool(
    {
      connectionString: databaseUrl,
      application_name: applicationName,
      max: connectionsMax,
      connectionTimeoutMillis: CONNECT_MS,
      statement_timeout: STATEMENT_MS,
      // The server's own timeout does not help when the server cannot be heard any more.
      query_timeout: STATEMENT_MS + 5_000,
      idle_in_transaction_session_timeout: STATEMENT_MS,
      Client: PreparingClient,
      types: { getTypeParser },
      // Otherwise the statement of a killed worker that waits for a lock would still be carried out, whenever it gets it.
      options: `-c client_connection_check_interval=${DEAD_CLIENT_MS}`,
    },
    (error) => events.emit('database.connection_lost', { error }),
  )
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) }).withSchema(SCHEMA)
  return { db, pool, close: (withinMs) => closePool(pool, withinMs) }
}

/** Counts and sizes are numbers here as they are in JSON, and none of ours comes near what a number cannot hold. */
const getTypeParser = ((oid: number, format?: 'text') =>
  oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser

/** A URL for people: where it points, without who and with which password. */
export function describeDatabase(databaseUrl: string): string {
  try {
    const url = new URL(databaseUrl)
    return `Postgres at ${url.host}${url.pathname}`
  } catch {
    return 'Postgres'
  }
}

/** What went wrong between here and the database, as one clear sentence; anything else as it was thrown. */
export function explainDbError(error: unknown, databaseUrl: string): unknown {
  const code = (error as { code?: unknown } | undefined)?.code
  if (error instanceof pg.DatabaseError) {
    if (code === '42P01' || code === '3F000' || code === '42703') {
      return new SandmanError(
        'database_not_migrated',
        `${describeDatabase(databaseUrl)} lacks what this release needs (${error.message}): run "sandman migrate" first.`,
        { cause: error },
      )
    }
    if (/^(28...|3D000)$/.test(String(code))) {
      return new SandmanError(
        'database_unreachable',
        `${describeDatabase(databaseUrl)} does not let us in: ${describeError(error)}. Check DATABASE_URL.`,
        { cause: error },
      )
    }
    // Shutting down, not accepting, out of connections, out of time: it may be asked again, some time.
    if (!/^(57P0[123]|57014|53300|08...)$/.test(String(code))) return error
  } else if (!isLostConnection(error)) return error
  return new SandmanError(
    'database_unreachable',
    `${describeDatabase(databaseUrl)} does not answer: ${describeError(error)}. Check DATABASE_URL and that the server runs, or ask again: with an idempotency key, nothing happens twice.`,
    { cause: error },
  )
}

/** By code where there is one; `pg` gives none to what it notices itself. */
function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string' && /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/.test(code))
    return true
  return /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered|Client was closed|Cannot use a pool after)/.test(
    error.message,
  )
}

/** Fails with one clear sentence when the database cannot be used, so that no process starts half. */
export async function assertReachable(pool: pg.Pool, databaseUrl: string): Promise<void> {
  try {
    await pool.query('select 1')
  } catch (error) {
    throw new SandmanError(
      'database_unreachable',
      `${describeDatabase(databaseUrl)} cannot be used: ${describeError(error)}. Check DATABASE_URL and that the server runs.`,
      { cause: error },
    )
  }
}
