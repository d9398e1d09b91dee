import { migrate } from '../db/migrate.ts'
import type { Events } from '../events.ts'
import { migratePostgresStore } from '../queues/bullmq/postgres-store.ts'

/** Everything that lives in Postgres: our own schema and, without a Redis, BullMQ's. Safe to run from many processes at once. */
export async function migrateAll(
  { databaseUrl, redisUrl }: { databaseUrl: string; redisUrl: string | undefined },
  events: Events,
): Promise<void> {
  const applied = await migrate(databaseUrl)
  if (redisUrl === undefined) await migratePostgresStore(databaseUrl)
  events.emit('database.migrated', { applied })
}
