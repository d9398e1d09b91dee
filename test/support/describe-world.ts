import { afterAll, afterEach, beforeAll } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import type { Patience } from '../../src/index.ts'
import { describeStores, type StoreKind } from './stores.ts'
import { createWorld, QUICK, type World } from './world.ts'

type WorldOptions = {
  patience?: Patience
  worker?: boolean
  stores?: StoreKind[]
  open?: (fleet: string) => Promise<Backend>
}

/** A world for the tests, on each of the queue stores, with a worker in it. What must always be true is looked at after each. */
export function describeWorld(
  name: string,
  tests: (world: () => World) => void,
  { patience = QUICK, worker = true, stores, open }: WorldOptions = {},
): void {
  describeStores(
    name,
    (kind) => {
      let world: World
      beforeAll(async () => {
        world = await createWorld(kind, { open })
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

/** An incident that must not happen again. */
export function describeIncident(name: string, tests: (world: () => World) => void, options?: WorldOptions): void {
  describeWorld(`incident ${name}`, tests, options)
}
