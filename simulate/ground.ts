import { sql } from 'kysely'
import type pg from 'pg'
import { type Db, openDb } from '../src/db/pool.ts'
import { Events } from '../src/events.ts'

/** The database that runs are made in: one connection for all that is simulated, and another to look at it from outside. */
export type Ground = { client: pg.ClientBase; db: Db; close(): Promise<void> }

export async function openGround(databaseUrl: string): Promise<Ground> {
  const handle = openDb({ databaseUrl, applicationName: 'sandman simulate', events: new Events(), connectionsMax: 2 })
  const client = await handle.pool.connect()
  // The same plan for the same statement, whatever was run before it: rows without an order come in the order of their plan. And to
  // plan what looks at everything takes longer than to look.
  await client.query('set plan_cache_mode = force_generic_plan')
  await handle.db.connection().execute(async (other) => {
    await sql`set plan_cache_mode = force_generic_plan`.execute(other)
  })
  return {
    client,
    db: handle.db,
    async close() {
      client.release()
      await handle.close()
    },
  }
}
