import { randomUUID } from 'node:crypto'
import { describe, inject } from 'vitest'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import type { QueueStore, StoreOptions } from '../../src/queues/bullmq/store.ts'
import { createDatabase } from './database.ts'

const STORE_KINDS = ['redis', 'postgres'] as const
export type StoreKind = (typeof STORE_KINDS)[number]

/** Where a test's queues are: a Redis, or a database of its own. */
export type StoreHome = Pick<StoreOptions, 'redisUrl' | 'databaseUrl' | 'fleet'> & { drop(): Promise<void> }

/** A name that no other test has, also not one that runs at the same time on the same Redis. */
export function uniqueFleet(): string {
  return `test-${randomUUID().slice(0, 13)}`
}

/** Queues that nobody else sees: of a fleet of their own, and on Postgres also in a database of their own. */
export async function createStoreHome(kind: StoreKind): Promise<StoreHome> {
  const database = await createDatabase({ plansOnce: true })
  const fleet = uniqueFleet()
  const redisUrl = kind === 'redis' ? inject('redisUrl') : undefined
  return { redisUrl, databaseUrl: database.url, fleet, drop: () => database.drop() }
}

/** On both stores; or on one of them, for what takes long and does not depend on how jobs are kept. */
export function describeStores(
  what: string,
  tests: (kind: StoreKind) => void,
  kinds: readonly StoreKind[] = STORE_KINDS,
) {
  describe.each(kinds)(`${what}, on %s`, tests)
}

export function openTestStore(home: StoreHome, options: Pick<StoreOptions, 'role' | 'events'>): QueueStore {
  return openStore({ ...home, ...options, consumers: 4 })
}
