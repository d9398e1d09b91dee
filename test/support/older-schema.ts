import { Kysely, PostgresDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import type pg from 'pg'
import { MIGRATIONS } from '../../src/db/migrate.ts'
import { openPool } from '../../src/pg-pool.ts'

/** The database as a release before has left it: with the migrations up to this one. */
export async function migrateAsBefore(url: string, last: string): Promise<void> {
  const known = Object.entries(MIGRATIONS).filter(([name]) => name <= last)
  const pool = openPool({ connectionString: url }, () => {})
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
  const { error } = await new Migrator({
    db,
    provider: { getMigrations: async () => Object.fromEntries(known) },
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
    migrationTableSchema: 'sandman',
  }).migrateToLatest()
  await db.destroy()
  if (error) throw error
}

export type Column = {
  table: string
  name: string
  type: string
  /** Written by the database, whoever inserts a row. */
  generated: boolean
  /** Has to be given by whoever inserts a row. */
  required: boolean
}

export async function columnsOf(pool: pg.Pool): Promise<Column[]> {
  const { rows } = await pool.query<Column>(`
    select table_name as "table", column_name as name, data_type as type, is_generated = 'ALWAYS' as generated,
      is_nullable = 'NO' and column_default is null and is_identity = 'NO' and is_generated = 'NEVER' as required
    from information_schema.columns
    where table_schema = 'sandman' and table_name not like 'migrations%' order by table_name, column_name`)
  return rows
}

export type Rows = Record<string, Record<string, unknown>[]>

/** Everything in these columns, table by table. */
export async function readRows(pool: pg.Pool, columns: readonly Column[]): Promise<Rows> {
  const tables = Object.entries(Object.groupBy(columns, ({ table }) => table))
  const read = tables.map(async ([table, known = []]) => {
    const names = known.map(({ name }) => `"${name}"`).join(', ')
    const { rows } = await pool.query<{ row: Record<string, unknown> }>(
      `select to_jsonb(each) as row from (select ${names} from sandman.${table}) as each order by 1`,
    )
    return [table, rows.map(({ row }) => row)] as const
  })
  return Object.fromEntries(await Promise.all(read))
}

/** As a restored backup does: rows refer to each other in circles, so nothing is checked before all are there. */
export async function writeRows(pool: pg.Pool, columns: readonly Column[], rows: Rows): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(`begin; set local session_replication_role = replica`)
    for (const [table, known = []] of Object.entries(Object.groupBy(columns, (column) => column.table))) {
      const names = known.filter(({ generated }) => !generated).map(({ name }) => `"${name}"`)
      await client.query(
        `insert into sandman.${table} (${names}) overriding system value
         select ${names} from jsonb_populate_recordset(null::sandman.${table}, $1)`,
        [JSON.stringify(rows[table] ?? [])],
      )
    }
    await client.query(`
      select setval(pg_get_serial_sequence('sandman.operations', 'place'), (select max(place) from sandman.operations));
      select setval(pg_get_serial_sequence('sandman.events', 'id'), (select max(id) from sandman.events));
      commit`)
  } finally {
    client.release()
  }
}
