import { pendingMigrations } from '../db/migrate.ts'
import type { Db } from '../db/pool.ts'
import { ping } from '../db/server.ts'
import { withDeadline } from '../deadline.ts'
import { describeError } from '../errors.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { PRODUCE_MS } from '../queues/bullmq/store.ts'

type Check = { ok: boolean; message: string }
export type Health = { ready: boolean; checks: { database: Check; queue: Check; migrations: Check } }

/** Looks at everything a request needs. Bounded: a dependency that hangs is one that does not answer. */
export async function checkHealth({ db, producer }: { db: Db; producer: Producer }): Promise<Health> {
  const [database, queue, migrations] = await Promise.all([
    check('the database', async () => {
      await ping(db)
      return 'answers'
    }),
    check('the queue', async () => `${(await producer.store.look()).version} answers`),
    check('the database', async () => {
      const pending = await pendingMigrations(db)
      if (pending.length > 0) throw new Error(`${pending.join(', ')} not applied`)
      return 'up to date'
    }),
  ])
  return { ready: database.ok && queue.ok && migrations.ok, checks: { database, queue, migrations } }
}

async function check(what: string, look: () => Promise<string>): Promise<Check> {
  try {
    return { ok: true, message: await withDeadline(PRODUCE_MS, what, look) }
  } catch (error) {
    return { ok: false, message: describeError(error) }
  }
}
