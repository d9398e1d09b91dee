import type { Config } from '../config.ts'
import { pendingMigrations } from '../db/migrate.ts'
import { assertReachable, type DbHandle, openDb } from '../db/pool.ts'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import type { QueueStore } from '../queues/bullmq/store.ts'

/** The configuration of a process that has found its database, embedded or not. */
export type RunningConfig = Config & { databaseUrl: string }

type Foundation = { handle: DbHandle; store: QueueStore }

/** What every role stands on: a database that answers and is migrated, and a way to the queues. */
export async function layFoundation(
  config: RunningConfig,
  { role, name, events }: { role: 'producer' | 'consumer'; name: string; events: Events },
): Promise<Foundation> {
  const handle = openDb({ databaseUrl: config.databaseUrl, applicationName: `sandman ${name}`, events })
  try {
    await assertReachable(handle.pool, config.databaseUrl)
    const pending = await pendingMigrations(handle.db)
    if (pending.length > 0) {
      throw new SandmanError(
        'database_not_migrated',
        `The database lacks ${pending.join(', ')}: run "sandman migrate" first (the Procfile's release process).`,
      )
    }
  } catch (error) {
    await handle.close()
    throw error
  }
  const store = openStore({ ...config, role, consumers: config.queues.length, events })
  // Not waited for: a queue that is away now may be back in a moment, and both roles cope with that.
  store.look().then(
    ({ evictionPolicy }) => {
      if (evictionPolicy) events.emit('queue.may_evict', { evictionPolicy, where: store.where })
    },
    (error: unknown) => store.report(error),
  )
  return { handle, store }
}
