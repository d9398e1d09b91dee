import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { SandmanError } from '../errors.ts'
import { kindOfId } from '../sandbox/ids.ts'
import type { Db } from './pool.ts'

export type Keyed = { fleet: string; idempotencyKey?: string | undefined }

/** What a caller's key has named before: an operation, or an execution. */
export function keyOf({ fleet, idempotencyKey }: Keyed): RawBuilder<unknown> {
  return sql`select operation_id, execution_id from sandman.idempotency_keys
      where fleet = ${fleet} and key = ${idempotencyKey ?? null}`
}

/** Two requests with one new key at the same time: one is written, and the other, asked again, finds it. */
export async function runOnce<Row>(db: Db, statement: RawBuilder<Row>, asked: Keyed): Promise<Row | undefined> {
  const { rows } = await statement.execute(db).catch((error: unknown) => {
    const keyIsTaken = error instanceof pg.DatabaseError && error.constraint === 'idempotency_keys_pkey'
    if (asked.idempotencyKey === undefined || !keyIsTaken) throw error
    return statement.execute(db)
  })
  // Nothing is found for a key that has named an operation and now asks for an execution, or the other way round.
  if (rows.length === 0 && asked.idempotencyKey !== undefined) await refuseOther(db, asked)
  return rows[0]
}

async function refuseOther(db: Db, asked: Keyed): Promise<void> {
  const { rows } = await sql<{ operation_id: string | null; execution_id: string | null }>`${keyOf(asked)}`.execute(db)
  const named = rows[0]?.operation_id ?? rows[0]?.execution_id
  if (named) throw reusedKey(asked.idempotencyKey, named)
}

export function reusedKey(key: string | undefined, named: string): SandmanError {
  return new SandmanError(
    'idempotency_key_reused',
    `The idempotency key ${key} has already named another request (${named}): use a new key for a new request.`,
    { details: { key, [`${kindOfId(named)}Id`]: named } },
  )
}
