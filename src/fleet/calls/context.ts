import type { BackendAbilities } from '../../backends/backend.ts'
import type { Clock } from '../../clock.ts'
import type { Db } from '../../db/pool.ts'
import type { Events } from '../../events.ts'
import type { Producer } from '../../queues/bullmq/producer.ts'
import type { Limits } from '../../sandbox/limits.ts'
import type { Changes } from '../changes.ts'
import type { Page } from '../views.ts'
import type { WaitingRoom } from '../waiting-room.ts'

/** What the calls of one fleet share: what it was opened with, and the one way in that every call takes. */
export type FleetContext = {
  readonly db: Db
  readonly fleet: string
  readonly clock: Clock
  readonly events: Events
  readonly limits: Limits
  readonly backends: ReadonlyMap<string, BackendAbilities>
  readonly room: WaitingRoom
  readonly changes: Changes
  /** A closed fleet says so, and a database that fails is explained. */
  call<T>(work: () => Promise<T>): Promise<T>
  /** The same for what goes on for as long as somebody listens: closing does not wait for it. */
  stream<T>(generate: (left: AbortSignal) => AsyncGenerator<T, void>): AsyncIterable<T>
  /** What it takes to ask for something. The queue is opened when it is first needed. */
  deps(): { db: Db; producer: Producer; fleet: string; clock: Clock; events: Events }
}

/** The id of the last one of a full page is where the next page begins. */
export function pageOf<Item extends { id: string | number }>(items: Item[], limit: number): Page<Item> {
  const last = items.length < limit ? undefined : items.at(-1)
  return { items, nextCursor: last ? String(last.id) : null }
}
