import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'

export const TEMPLATE_DATABASE = 'sandman_template'

export type TestDatabase = DbHandle & { url: string; drop(): Promise<void> }

/** A database of one's own: a copy of the migrated template, or an empty one. Drop it when done. */
export async function createDatabase({ migrated = true } = {}): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await administer(`create database ${name} template ${migrated ? TEMPLATE_DATABASE : 'template0'}`)
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
export async function administer(statement: string): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'))
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
