import {
  assertSchemaCompatibility,
  createPostgresBackend,
  DEFAULT_SCHEMA,
  type PgPool,
  Queue,
  runMigrations,
  Worker,
} from 'bullmq'
import { describeError, SandmanError } from '../../errors.ts'
import { closePool, openPool } from '../../pg-pool.ts'
import { createPatientBackend } from './patient-backend.ts'
import { type ConnectionWatch, PRODUCE_MS, type QueueStore, qualifiedName, type StoreOptions } from './store.ts'
import { telemetryOf } from './telemetry.ts'

/** Statements of the workers of one process that run at the same time; what they wait on comes on top. */
const WORKING_CONNECTIONS = 4
const PRODUCER_CONNECTIONS = 3
const CONSUMER_QUERY_MS = 10_000

/**
 * BullMQ's own Postgres backend. It gets a pool that is shared by all queues of this process: with one of its own for each
 * queue, a fleet of workers would use up the server's connections.
 */
export function openPostgresStore(
  { databaseUrl, fleet, role, consumers = 0 }: StoreOptions,
  watch: ConnectionWatch,
): QueueStore {
  const pool = openPool(
    {
      connectionString: databaseUrl,
      application_name: `sandman queue ${role}`,
      max: role === 'producer' ? PRODUCER_CONNECTIONS : consumers + WORKING_CONNECTIONS,
      connectionTimeoutMillis: PRODUCE_MS,
      query_timeout: role === 'producer' ? PRODUCE_MS : CONSUMER_QUERY_MS,
      // BullMQ's statements name no schema.
      options: `-c search_path=${DEFAULT_SCHEMA}`,
    },
    watch.lost,
  )
  pool.setMaxListeners(0) // one listener for every queue and worker that shares it
  pool.on('connect', watch.restored)
  const connection = pool as unknown as PgPool
  return {
    where: 'the queues in Postgres',
    queue: (name, options) =>
      new Queue(
        qualifiedName(fleet, name),
        { ...options, ...telemetryOf(name), connection },
        createPostgresBackend,
      ) as unknown as Queue,
    worker: (name, processor, options) =>
      new Worker(
        qualifiedName(fleet, name),
        processor,
        { ...options, ...telemetryOf(name), connection },
        createPatientBackend,
      ) as unknown as Worker,
    async look() {
      await assertSchemaCompatibility(pool)
      const { rows } = await pool.query<{ version: string; clock_ms: number }>(
        `select current_setting('server_version') as version, extract(epoch from clock_timestamp())::float8 * 1000 as clock_ms`,
      )
      return { version: `Postgres ${rows[0]?.version}`, clockMs: rows[0]?.clock_ms ?? 0, evictionPolicy: undefined }
    },
    report: watch.report,
    close: (withinMs) => closePool(pool, withinMs),
  }
}

/** Creates or updates BullMQ's schema. Any number of processes may do so at once: BullMQ takes a lock. */
export async function migratePostgresStore(databaseUrl: string): Promise<void> {
  const settings = {
    connectionString: databaseUrl,
    application_name: 'sandman migrate',
    connectionTimeoutMillis: 10_000,
  }
  const pool = openPool({ ...settings, max: 1 }, () => {})
  try {
    const client = await pool.connect()
    await runMigrations(client).finally(() => client.release())
  } catch (error) {
    throw new SandmanError(
      'database_not_migrated',
      `The queues' schema ${DEFAULT_SCHEMA} could not be migrated: ${describeError(error)}`,
      { cause: error },
    )
  } finally {
    await closePool(pool)
  }
}
