import type pg from 'pg'
import { SCHEMA } from '../src/db/schema.ts'

/** Tables that belong to migrations, and not to fleets. */
const KEPT = ['migrations', 'migration_lock', 'kysely_migration', 'kysely_migration_lock']

/**
 * An empty database whose ids depend on nothing but their order: what makes them unique in production is chance, which would be
 * another one in every run.
 */
export async function prepareDatabase(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1 and not tablename = any ($2) order by 1`,
    [SCHEMA, KEPT],
  )
  // Without the triggers, which keep history from being emptied.
  await client.query('set session_replication_role = replica')
  await client.query(`truncate ${rows.map(({ name }) => name).join(', ')} restart identity cascade`)
  await client.query('reset session_replication_role')
  await client.query(`alter sequence ${SCHEMA}.ids restart`)
  await client.query(`
    create or replace function ${SCHEMA}.make_id(prefix text, at timestamptz) returns text language sql volatile as $$
      select prefix || '_'
        || lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0')
        || lpad(to_hex(nextval('${SCHEMA}.ids')), 8, '0')
        || '51a1ed'
    $$`)
}
