import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import type { FakeInstance } from '../support/provider/cloud.ts'
import type { World } from '../support/world.ts'

export async function settled(world: World, { id }: { id: string }): Promise<Sandbox> {
  await expect.poll(async () => (await world.fleet.get(id)).operationId).toBeNull()
  return world.fleet.get(id)
}

/** Its provider has lost it, and says so when it is asked for it. */
export function lose({ provider }: World, { providerRef }: Sandbox): void {
  provider.instances.delete(providerRef as string)
}

/** Enough others that one which is missing is no sudden loss. */
export async function others(world: World, count = 6): Promise<Sandbox[]> {
  return Promise.all(Array.from({ length: count }, () => world.running()))
}

/** Each test begins as if nobody had swept before: the time of the one before it may have been ahead. */
export async function forget({ db, provider }: World): Promise<void> {
  for (const { ref, condition } of provider.checkpoints.values())
    if (condition !== 'ready') provider.checkpoints.delete(ref)
  await sql`truncate sandman.findings, sandman.sweeps, sandman.sightings`.execute(db)
}

/** An instance with this fleet's label, of a sandbox that the test names. */
export function stray({ provider, place }: World, sandboxId: string, more: Partial<FakeInstance> = {}): FakeInstance {
  const ref = `stray-${randomUUID().slice(0, 8)}`
  return provider.putInstance({ ref, fleet: `${place.fleet}/test`, sandboxId, ...more })
}
