import { type Kysely, sql } from 'kysely'
import { lockTables } from '../lock-tables.ts'

/**
 * That an operation has been given up is written down before anything is undone for it. What was on its way to end an instance when its
 * worker died may arrive later than the next attempt: which must not take that instance for what was asked for.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [lockTables('operations'), 'alter table sandman.operations add column giving_up jsonb'])
    await sql.raw(statement).execute(db)
}
