import { afterAll, afterEach, beforeAll } from 'vitest'
import type { Patience } from '../../src/index.ts'
import { describeStores, type StoreKind } from './stores.ts'
import { createWorld, QUICK, type World } from './world.ts'

/** An incident that must not happen again: told on both queue stores, each with a world of its own and a worker in it. */
export function describeIncident(
  name: string,
  tests: (world: () => World) => void,
  { patience = QUICK, worker = true, stores }: { patience?: Patience; worker?: boolean; stores?: StoreKind[] } = {},
): void {
  describeStores(
    `incident ${name}`,
    (kind) => {
      let world: World
      beforeAll(async () => {
        world = await createWorld(kind)
        if (worker) await world.startWorker({ patience })
      })
      afterEach(async () => {
        world.provider.becomeHonest()
        await world.expectInvariants()
      })
      afterAll(() => world.end())
      tests(() => world)
    },
    stores,
  )
}
