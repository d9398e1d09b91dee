import { openDb } from '../src/db/pool.ts'
import { Events } from '../src/events.ts'
import { createFleet } from '../src/index.ts'
import { openStore } from '../src/queues/bullmq/open-store.ts'
import { Producer } from '../src/queues/bullmq/producer.ts'
import { QUEUE_OF_KIND } from '../src/queues/catalog.ts'
import { inParallel } from './in-parallel.ts'
import { noopAbilities } from './noop-backend.ts'
import { makeRequested, makeRunning } from './rows.ts'
import type { Subject } from './subject.ts'
import type { Measured, MeasuredKind, Place } from './subjects/order.ts'

/** Rings under way at a time while a queue is filled. */
const AT_ONCE = 32
/** As long as its operation has not been asked for, an id of one is as good as another. */
const NO_OPERATION = (nth: number) => `op_${nth.toString(16).padStart(26, '0')}`

/** A fleet whose queues are filled while nobody may take from them, and then opened. */
export type Lane = Awaited<ReturnType<typeof openLane>>

export async function openLane(place: Place) {
  const { databaseUrl, redisUrl, fleet: name } = place
  const fleet = createFleet({
    databaseUrl,
    ...(redisUrl !== undefined && { redisUrl }),
    fleet: name,
    backends: [noopAbilities()],
  })
  const handle = openDb({ databaseUrl, applicationName: 'sandman bench', events: new Events(), connectionsMax: 2 })
  const producer = new Producer(openStore({ ...place, role: 'producer', events: new Events() }))
  const queueOf = async (kind: MeasuredKind) => {
    const found = (await producer.all()).find((each) => each.name === QUEUE_OF_KIND[kind].name)
    if (!found) throw new Error(`there is no queue for ${kind}`)
    return found.queue
  }
  const ringFor = (kind: MeasuredKind, operationIds: readonly string[]) =>
    inParallel(operationIds, AT_ONCE, (operationId) => producer.ring(QUEUE_OF_KIND[kind], { operationId }))
  let rung = 0

  return {
    place,
    fleet,
    pool: handle.pool,
    makeRunning: (count: number) => makeRunning(handle.pool, { fleet: name, count }),
    closeQueue: async (kind: MeasuredKind) => (await queueOf(kind)).pause(),
    openQueue: async (kind: MeasuredKind) => (await queueOf(kind)).resume(),

    /** Fills the queue while nobody may take from it, and lets one process have all of it. */
    async drain(subject: Subject, kind: MeasuredKind, count: number, fill: () => Promise<void>): Promise<Measured> {
      await this.closeQueue(kind)
      await fill()
      const measured = subject.ask<Measured>('drain', count)
      await this.openQueue(kind)
      return measured
    },

    /** The rows of all of them at once, and then the bell for each. */
    async request(kind: MeasuredKind, sandboxIds: readonly string[]): Promise<void> {
      await ringFor(kind, await makeRequested(handle.pool, { kind, sandboxIds }))
    },

    /** The bell alone, for operations that there are not. */
    async ring(kind: MeasuredKind, count: number): Promise<void> {
      await ringFor(
        kind,
        Array.from({ length: count }, () => NO_OPERATION(rung++)),
      )
    },

    /** What nobody sees any more is cleared away, so that one round is like the next. */
    async tidyUp(): Promise<void> {
      await handle.pool.query('vacuum analyze')
    },

    async close(): Promise<void> {
      await Promise.all([fleet.close(), producer.close()])
      await handle.close()
    },
  }
}
