import { listEvents } from '../../db/events.ts'
import type { FoundSandbox } from '../../db/json-row.ts'
import { listNewest } from '../../db/newest.ts'
import { findSandbox, listSandboxes } from '../../db/sandboxes.ts'
import { isIdOf } from '../../sandbox/ids.ts'
import type { Fleet } from '../fleet.ts'
import { checkHealth } from '../health.ts'
import { readMetrics } from '../metrics.ts'
import { readOverview } from '../overview.ts'
import {
  ChangesRequest,
  CheckpointsRequest,
  EventsRequest,
  ListRequest,
  OperationsRequest,
  parseRequest,
} from '../requests.ts'
import { shared } from '../share.ts'
import { viewCheckpoint, viewEvent, viewOperation, viewSandbox } from '../views.ts'
import { findWhy } from '../why.ts'
import { type FleetContext, pageOf } from './context.ts'
import { unknownId } from './unknown-id.ts'

/** However many look at the fleet, it is counted once in so long. */
const OVERVIEW_MS = 3_000

type Looks =
  | ('get' | 'why' | 'list' | 'events' | 'operations' | 'checkpoints')
  | ('changes' | 'overview' | 'metrics' | 'health' | 'queues')

/** What there is, how it came to that, and how the whole fleet is. Nothing here asks for anything. */
export function looks(context: FleetContext): Pick<Fleet, Looks> {
  const { db, fleet, limits, changes, call, stream, deps } = context
  const overview = shared(OVERVIEW_MS, () => readOverview({ ...deps(), limits }))
  const metrics = shared(OVERVIEW_MS, async () => readMetrics(db, fleet, await overview()))

  async function requireSandbox(sandboxId: string): Promise<FoundSandbox> {
    const found = isIdOf('sandbox', sandboxId) && (await findSandbox(db, { fleet, id: sandboxId }))
    if (!found) throw unknownId('sandbox', sandboxId, fleet)
    return found
  }

  return {
    get: (sandboxId) =>
      call(async () => {
        const { sandbox, checkpoint } = await requireSandbox(sandboxId)
        return viewSandbox(sandbox, checkpoint)
      }),
    why: (sandboxId) =>
      call(async () => {
        const why = isIdOf('sandbox', sandboxId) && (await findWhy(db, { fleet, id: sandboxId }))
        if (!why) throw unknownId('sandbox', sandboxId, fleet)
        return why
      }),
    async list(request = {}) {
      const { id: idPrefix, cursor: before, limit: max, ...filter } = parseRequest(ListRequest, request)
      return call(async () => {
        const { found, cutOffAt } = await listSandboxes(db, { fleet, ...filter, idPrefix, before, max })
        const page = pageOf(
          found.map(({ sandbox, checkpoint }) => viewSandbox(sandbox, checkpoint)),
          max,
        )
        return cutOffAt === undefined ? page : { ...page, nextCursor: cutOffAt }
      })
    },
    async events(sandboxId, request = {}) {
      const { cursor, limit } = parseRequest(EventsRequest, request)
      return call(async () => {
        await requireSandbox(sandboxId)
        const items = (await listEvents(db, sandboxId, { after: Number(cursor ?? 0), max: limit })).map(viewEvent)
        return pageOf(items, limit)
      })
    },
    async operations(sandboxId, request = {}) {
      const { cursor, limit } = parseRequest(OperationsRequest, request)
      return call(async () => {
        await requireSandbox(sandboxId)
        const found = await listNewest(db, 'operations', { sandboxId, before: cursor, max: limit })
        return pageOf(found.map(viewOperation), limit)
      })
    },
    async checkpoints(sandboxId, request = {}) {
      const { cursor, limit } = parseRequest(CheckpointsRequest, request)
      return call(async () => {
        await requireSandbox(sandboxId)
        const found = await listNewest(db, 'checkpoints', { sandboxId, before: cursor, max: limit })
        return pageOf(found.map(viewCheckpoint), limit)
      })
    },
    changes: (request) =>
      stream(async function* (left) {
        const { signal, ...watched } = parseRequest(ChangesRequest, request)
        yield* changes.watch(watched, signal ? AbortSignal.any([signal, left]) : left)
      }),
    overview: () => call(overview),
    metrics: () => call(metrics),
    health: () => call(() => checkHealth(deps())),
    queues: () => call(() => deps().producer.all()),
  }
}
