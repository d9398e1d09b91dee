import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'

export const TEMPLATE_DATABASE = 'sandman_template'

export type TestDatabase = DbHandle & { url: string; drop(): Promise<void> }

/**
 * A database of one's own: a copy of the migrated template, or an empty one. Drop it when done.
 *
 * `plansOnce` is for whole fleets: their many connections live for a second or two, and Postgres would plan every statement anew
 * for the first five times on each of them, which costs more than all else that it does. With the values at hand, as it does
 * in production at first, statements are planned where the database alone is tested.
 */
export async function createDatabase({ migrated = true, plansOnce = false } = {}): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await administer(
    // Copied as files, in half of the time that it takes to write all of it into the log, which nobody will ever read.
    `create database ${name} template ${migrated ? TEMPLATE_DATABASE : 'template0'} strategy file_copy`,
    ...(plansOnce ? [`alter database ${name} set plan_cache_mode = force_generic_plan`] : []),
  )
  const url = inject('postgresUrl').replace(/[^/]+$/, name)
  const handle = openDb({ databaseUrl: url, applicationName: 'sandman test', events: new Events() })
  return {
    ...handle,
    url,
    async drop() {
      await handle.close()
      await administer(`drop database ${name} with (force)`)
    },
  }
}

/** Says something to the server, and not in any of the databases of tests. */
export async function administer(...statements: string[]): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'))
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}
