import { setTimeout as sleep } from 'node:timers/promises'
import { assertSchemaCompatibility, createPostgresBackend } from 'bullmq'

/** As long as BullMQ waits between two tries to fetch a job. */
const LOOK_AGAIN_MS = 1_000

/**
 * BullMQ's Postgres backend, for workers. Before its first statement it looks at its schema, and it remembers what came of that: also,
 * for ever, that Postgres did not answer in that moment. A worker then asks that memory again and again, and never anything else:
 * it takes no job, and hears neither timers nor signals. This one looks again, after a while.
 */
export const createPatientBackend: typeof createPostgresBackend = (name, options, more) => {
  const backend = createPostgresBackend(name, options, more)
  const { connection } = backend
  let looking: Promise<void> | undefined
  const look = async () => {
    try {
      await assertSchemaCompatibility(connection.pool)
    } catch (error) {
      await sleep(LOOK_AGAIN_MS)
      looking = undefined
      throw error
    }
  }
  connection.waitUntilReady = () => {
    looking ??= look()
    return looking
  }
  return backend
}
