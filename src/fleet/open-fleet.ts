import { listedAbilities } from '../backends/catalog.ts'
import { runningClock } from '../clock.ts'
import { type DbHandle, explainDbError, openDb } from '../db/pool.ts'
import { withDeadline } from '../deadline.ts'
import { isSandmanError, SandmanError } from '../errors.ts'
import { Events } from '../events.ts'
import { beginGrace, ENDING_MS } from '../grace.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import type { QueueStore } from '../queues/bullmq/store.ts'
import { executions } from './calls/executions.ts'
import { looks } from './calls/looks.ts'
import { verbs } from './calls/verbs.ts'
import { Changes } from './changes.ts'
import type { Fleet, FleetOptions } from './fleet.ts'
import { FleetRequest } from './options.ts'
import { leavable } from './output.ts'
import { limitsOf, parseRequest } from './requests.ts'
import { Tally } from './tally.ts'
import { WaitingRoom } from './waiting-room.ts'

/** What a process has opened and looked at already; closed with the fleet. */
type FleetFoundation = { handle: DbHandle; store: QueueStore; events: Events }

/** A process with a short grace period has less time to close it than an app. */
export type OpenFleet = Omit<Fleet, 'close'> & { close(withinMs?: number): Promise<void> }

/** Behind `createFleet`, and for a process that stands on something already: apps are not to see that, nor the types of it. */
export function openFleet(options: FleetOptions, foundation?: FleetFoundation): OpenFleet {
  const asked = parseRequest(FleetRequest, options)
  const { databaseUrl, redisUrl, fleet, connectionsMax, onEvent } = asked
  const limits = limitsOf(asked.ttl)
  const backends = new Map([...listedAbilities(), ...asked.backends].map((backend) => [backend.name, backend]))
  const events = foundation?.events ?? new Events()
  if (onEvent) events.subscribe(onEvent)
  const clock = runningClock
  const { db, close: closeDb } =
    foundation?.handle ?? openDb({ databaseUrl, applicationName: 'sandman fleet', events, connectionsMax })
  const room = new WaitingRoom({ db, databaseUrl, fleet, events })
  const changes = new Changes({ db, fleet, events })
  const tally = new Tally({ db, fleet, clock, events })
  let opened = foundation && new Producer(foundation.store)
  let closing: Promise<void> | undefined
  const underWay = new Set<Promise<unknown>>()

  async function call<T>(work: () => Promise<T>): Promise<T> {
    if (closing) throw closed()
    const working = work()
    underWay.add(working)
    try {
      return await working
    } catch (error) {
      throw explainDbError(error, databaseUrl)
    } finally {
      underWay.delete(working)
    }
  }

  function stream<T>(generate: (left: AbortSignal) => AsyncGenerator<T, void>): AsyncIterable<T> {
    return leavable(async function* (left) {
      if (closing) throw closed()
      try {
        yield* generate(left)
      } catch (error) {
        throw closing && !isSandmanError(error) ? closed() : explainDbError(error, databaseUrl)
      }
    })
  }

  function deps() {
    opened ??= new Producer(openStore({ databaseUrl, redisUrl, fleet, role: 'producer', events }))
    return { db, producer: opened, fleet, clock, events }
  }

  async function close(withinMs: number): Promise<void> {
    const grace = beginGrace(Math.min(withinMs, ENDING_MS))
    // A pool that is closed forgets who stands in line for a connection, so they come first; but not for ever.
    const answered = () => Promise.all([room.close(), changes.close(), Promise.allSettled(underWay)])
    await withDeadline(grace.msFor('handingOver'), 'the last call', answered).catch(() => {})
    await tally.close(grace.msFor('lastWords'))
    const closingMs = grace.msFor('closing')
    await Promise.all([opened?.close(closingMs), closeDb(closingMs)])
  }

  const context = { db, fleet, clock, events, limits, backends, room, changes, call, stream, deps }
  return {
    name: fleet,
    backends: [...backends.values()],
    ...verbs(context),
    ...executions(context),
    ...looks(context),
    stopWaiting: () => room.hurry(),
    close(withinMs = ENDING_MS) {
      closing ??= close(withinMs)
      return closing
    },
  }
}

function closed(): SandmanError {
  return new SandmanError('fleet_closed', 'The fleet is closed: create a new one.')
}
