import { listedAbilities } from '../backends/catalog.ts'
import { runningClock } from '../clock.ts'
import { isFleetName, isPostgresUrl } from '../config-values.ts'
import { type DbHandle, explainDbError, openDb } from '../db/pool.ts'
import { withDeadline } from '../deadline.ts'
import { isSandmanError, SandmanError } from '../errors.ts'
import { Events } from '../events.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import type { QueueStore } from '../queues/bullmq/store.ts'
import { isRedisUrl } from '../redis-url.ts'
import { executions } from './calls/executions.ts'
import { looks } from './calls/looks.ts'
import { verbs } from './calls/verbs.ts'
import { Changes } from './changes.ts'
import type { Fleet, FleetOptions } from './fleet.ts'
import { leavable } from './output.ts'
import { limitsOf, parseRequest, Ttl } from './requests.ts'
import { Tally } from './tally.ts'
import { WaitingRoom } from './waiting-room.ts'

/** How long closing waits for calls under way. A queue that is away takes as long to be given up. */
const CLOSE_MS = 2_000

/** What a process has opened and looked at already; closed with the fleet. */
export type FleetFoundation = { handle: DbHandle; store: QueueStore; events: Events }

/** Behind `createFleet`, and for a process that stands on something already: apps are not to see that, nor the types of it. */
export function openFleet(options: FleetOptions, foundation?: FleetFoundation): Fleet {
  const { databaseUrl, redisUrl, fleet = 'default', connectionsMax = 10, onEvent } = options
  if (!isFleetName(fleet))
    throw new SandmanError('request_invalid', `fleet: ${JSON.stringify(fleet)} must be 1 to 40 of a-z, 0-9 and -.`)
  // Not repeated in the message: there may be a password in it. Without this check, `pg` would read the environment.
  if (!isPostgresUrl(databaseUrl))
    throw new SandmanError('request_invalid', 'databaseUrl: must be a URL such as postgres://user@host:5432/name.')
  if (redisUrl !== undefined && !isRedisUrl(redisUrl))
    throw new SandmanError('request_invalid', 'redisUrl: must be a URL such as redis://host:6379.')
  const limits = limitsOf(parseRequest(Ttl, options.ttl ?? {}, 'ttl'))
  const backends = new Map(
    [...listedAbilities(), ...(options.backends ?? [])].map((backend) => [backend.name, backend]),
  )
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

  async function close(): Promise<void> {
    // A pool that is closed forgets who stands in line for a connection, so they come first; but not for ever.
    const answered = () => Promise.allSettled(underWay)
    await Promise.all([
      room.close(),
      changes.close(),
      withDeadline(CLOSE_MS, 'the last call', answered).catch(() => {}),
    ])
    await tally.close()
    await Promise.all([opened?.close(), closeDb()])
  }

  const context = { db, fleet, clock, events, limits, backends, room, changes, call, stream, deps }
  return {
    name: fleet,
    backends: [...backends.values()],
    ...verbs(context),
    ...executions(context),
    ...looks(context),
    stopWaiting: () => room.hurry(),
    close() {
      closing ??= close()
      return closing
    },
  }
}

function closed(): SandmanError {
  return new SandmanError('fleet_closed', 'The fleet is closed: create a new one.')
}
