import { sql } from 'kysely'
import type { Db } from './pool.ts'
import { SCHEMA } from './schema.ts'

/** What the database is, for whoever examines a deployment. */
export type ServerFacts = { version: string; versionNumber: number; clockMs: number; mayCreate: boolean }

export async function readServer(db: Db): Promise<ServerFacts> {
  const { rows } = await sql<ServerFacts>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as "versionNumber",
           extract(epoch from clock_timestamp())::float8 * 1000 as "clockMs",
           has_database_privilege(current_database(), 'create') as "mayCreate"`.execute(db)
  return rows[0] as ServerFacts
}

/** Every table, with the rights to it that this database user lacks. */
export async function listRights(db: Db): Promise<{ table: string; missing: string[] }[]> {
  const { rows } = await sql<{ table: string; missing: string[] }>`
    select tables.table_name as table,
           array(select needed from unnest(array['select', 'insert', 'update', 'delete']) as needed
                 where not has_table_privilege(format('%I.%I', tables.table_schema, tables.table_name), needed)) as missing
    from information_schema.tables where table_schema = ${SCHEMA} and table_name not like 'migrations%'`.execute(db)
  return rows
}

/** Fails when it does not answer. */
export async function ping(db: Db): Promise<void> {
  await sql`select 1`.execute(db)
}
