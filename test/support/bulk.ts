import type pg from 'pg'

/**
 * Fills large tables within a transaction: without the triggers and the knots, which would take as long to check, and with the
 * indexes made afterwards, which is much faster than to add to them row by row.
 */
export async function fillInBulk(client: pg.PoolClient, tables: string[], fill: () => Promise<void>): Promise<void> {
  await client.query('begin')
  await client.query('set local session_replication_role = replica')
  await client.query('set local statement_timeout = 0') // so many rows take their time on a machine that is busy
  const { rows } = await client.query<{ name: string; made: string }>(
    `select format('%I.%I', schemaname, indexname) as name, indexdef as made from pg_indexes
     where schemaname = 'sandman' and tablename = any($1) and not exists (select from pg_constraint where conname = indexname)`,
    [tables],
  )
  for (const { name } of rows) await client.query(`drop index ${name}`)
  await fill()
  for (const { made } of rows) await client.query(made)
  await client.query('commit')
}
