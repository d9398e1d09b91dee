import { Kysely, PostgresDialect } from 'kysely'
import type { DbHandle } from '../../../src/db/pool.ts'
import { type Database, SCHEMA } from '../../../src/db/schema.ts'
import { closePool, openPool } from '../../../src/pg-pool.ts'

/** A database whose statements are counted. */
export function countingDb(databaseUrl: string): { handle: DbHandle; statements(): string[]; forget(): void } {
  const seen: string[] = []
  const pool = openPool({ connectionString: databaseUrl, max: 10 }, () => {})
  const db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool }),
    log: ({ query }) => {
      seen.push(query.sql)
    },
  }).withSchema(SCHEMA)
  return {
    handle: { db, pool, close: () => closePool(pool) } as DbHandle,
    statements: () => [...seen],
    forget: () => {
      seen.length = 0
    },
  }
}
