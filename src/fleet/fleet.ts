import type { z } from 'zod'
import type { BackendAbilities } from '../backends/backend.ts'
import { listedAbilities } from '../backends/catalog.ts'
import { runningClock } from '../clock.ts'
import { isFleetName, isPostgresUrl } from '../config.ts'
import { listEvents } from '../db/events.ts'
import { type FoundExecution, findExecutions, listExecutions } from '../db/executions.ts'
import { listNewest } from '../db/newest.ts'
import { type FoundOperation, findOperations } from '../db/operations.ts'
import { type DbHandle, explainDbError, openDb } from '../db/pool.ts'
import type { Requested } from '../db/request.ts'
import { type FoundSandbox, findSandbox, listBackends, listSandboxes } from '../db/sandboxes.ts'
import { touch } from '../db/touch.ts'
import { withDeadline } from '../deadline.ts'
import { isSandmanError, SandmanError } from '../errors.ts'
import { type Event, Events } from '../events.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { type OpenQueue, Producer } from '../queues/bullmq/producer.ts'
import type { QueueStore } from '../queues/bullmq/store.ts'
import { isRedisUrl } from '../redis-url.ts'
import type { Kind, Options } from '../sandbox/judge.ts'
import { ask, askToCancel, askToExecute, askToSpawn } from './ask.ts'
import { type Change, Changes } from './changes.ts'
import { checkHealth, type Health } from './health.ts'
import { readMetrics } from './metrics.ts'
import { leavable, type OutputPiece, streamOutput } from './output.ts'
import { type Overview, readOverview } from './overview.ts'
import {
  AdoptRequest,
  ChangesRequest,
  CheckpointsRequest,
  EventsRequest,
  ExecuteRequest,
  ExecutionsRequest,
  isExecutionId,
  isOperationId,
  isSandboxId,
  ListRequest,
  limitsOf,
  OperationsRequest,
  OutputRequest,
  PauseRequest,
  parseRequest,
  ResumeRequest,
  SnapshotRequest,
  SpawnRequest,
  SweepRequest,
  TeardownRequest,
  Ttl,
  WaitRequest,
} from './requests.ts'
import { shared } from './share.ts'
import { askToSweep, type SweepReport } from './sweep.ts'
import { Tally } from './tally.ts'
import {
  type Checkpoint,
  type Execution,
  type Operation,
  type Page,
  type Sandbox,
  type SandboxEvent,
  viewCheckpoint,
  viewEvent,
  viewExecution,
  viewOperation,
  viewSandbox,
} from './views.ts'
import { WaitingRoom } from './waiting-room.ts'
import { findWhy, type Why } from './why.ts'

export type FleetOptions = {
  /** Postgres that holds the truth, migrated by `sandman migrate`. */
  databaseUrl: string
  /** Redis for the queues, if the workers have one too. Without it, the queues live in Postgres. */
  redisUrl?: string
  /** Name of the deployment. Defaults to `default`. */
  fleet?: string
  /** Backends of one's own that the workers have. Those that Sandman brings are known. */
  backends?: readonly BackendAbilities[]
  /** Connections to Postgres at most, besides one that listens once somebody has waited. Defaults to 10. */
  connectionsMax?: number
  /** The fleet's limits as its workers have them (`SANDMAN_TTL`). Only for what a sweep reports: the workers act by their own. */
  ttl?: Given<typeof Ttl>
  /** Told of what happens behind the calls, such as a queue that is away. */
  onEvent?: (event: Event) => void
}

/** What became of a request, and where its sandbox is now. */
export type Answer = { operation: Operation; sandbox: Sandbox }

/** What became of an execution, and where its sandbox is now. */
export type ExecutionAnswer = { execution: Execution; sandbox: Sandbox }

/** How long closing waits for calls under way. A queue that is away takes as long to be given up. */
const CLOSE_MS = 2_000
/** How much longer than it wanted to wait a caller is kept for the latest news. */
const LAST_LOOK_MS = 1_000

/** However many look at the fleet, it is counted once in so long. */
const OVERVIEW_MS = 3_000

type Given<Schema extends z.ZodType> = z.input<Schema>

/**
 * What a web app asks of its sandboxes. Each verb resolves as soon as the request is accepted, or, with `wait`, when it has
 * settled or that time is over; `operation.status` tells. How an operation ends is a value and never thrown: switch on
 * `operation.error.errorType`. What is thrown is a `SandmanError`, or the reason of the caller's own signal.
 */
export type Fleet = {
  readonly name: string
  /** What the backends can do that a sandbox may be made on. Which of them there is a worker for is not known here. */
  readonly backends: readonly BackendAbilities[]
  /** Makes a sandbox. */
  spawn(request: Given<typeof SpawnRequest>): Promise<Answer>
  /** Takes over an instance that exists at its provider. It is looked at, and ends where it is: running, suspended or gone. */
  adopt(request: Given<typeof AdoptRequest>): Promise<Answer>
  pause(sandboxId: string, request?: Given<typeof PauseRequest>): Promise<Answer>
  resume(sandboxId: string, request?: Given<typeof ResumeRequest>): Promise<Answer>
  /** Copies a sandbox while it keeps running. `operation.checkpointId` can be spawned from. */
  snapshot(sandboxId: string, request?: Given<typeof SnapshotRequest>): Promise<Answer>
  /** Frees what it computes with. One that is suspended has nothing left to free, and stays so. */
  kill(sandboxId: string, request?: Given<typeof TeardownRequest>): Promise<Answer>
  /** Ends it for ever, with all that it could be resumed from. */
  destroy(sandboxId: string, request?: Given<typeof TeardownRequest>): Promise<Answer>
  /** An operation as it is now, or once it has settled. */
  operation(operationId: string, request?: Given<typeof WaitRequest>): Promise<Answer>
  get(sandboxId: string): Promise<Sandbox>
  /** Says that a sandbox is in use: its idle limit is counted anew. No other limit is, and one that sleeps is not woken. */
  touch(sandboxId: string): Promise<Sandbox>
  /** How a sandbox got where it is, in sentences: who asked for what, what came of it, and what was seen at its provider. */
  why(sandboxId: string): Promise<Why>
  /**
   * Asks the workers to compare everything with the providers now, and reports what is not as it should be, with all that was
   * seen, and which sandboxes are past a limit. With `dryRun` nothing is done about it.
   */
  sweep(request?: Given<typeof SweepRequest>): Promise<SweepReport>
  /**
   * Runs a command in a sandbox, or follows the agent that it was made with. One that sleeps is woken first, and with
   * `ifLost: 'respawn'` one that is lost is replaced. With `wait`, resolves when the execution has ended or that time is over.
   */
  execute(sandboxId: string, request?: Given<typeof ExecuteRequest>): Promise<ExecutionAnswer>
  /** An execution as it is now, or once it has ended. */
  execution(executionId: string, request?: Given<typeof WaitRequest>): Promise<ExecutionAnswer>
  /** The newest first, of one sandbox or of all. */
  executions(request?: Given<typeof ExecutionsRequest>): Promise<Page<Execution>>
  /** Stops the agent; its execution ends when that was seen to have ended. One that has ended stays as it is. */
  cancel(executionId: string, request?: Given<typeof WaitRequest>): Promise<ExecutionAnswer>
  /** All that it has printed from a byte on, and then what it prints, until it has ended. */
  output(executionId: string, request?: Given<typeof OutputRequest>): AsyncIterable<OutputPiece>
  /** The newest first. */
  list(request?: Given<typeof ListRequest>): Promise<Page<Sandbox>>
  /** A sandbox's history, in the order in which it happened. */
  events(sandboxId: string, request?: Given<typeof EventsRequest>): Promise<Page<SandboxEvent>>
  /** What was asked of a sandbox, the newest first. */
  operations(sandboxId: string, request?: Given<typeof OperationsRequest>): Promise<Page<Operation>>
  /** All that a sandbox could ever be resumed or spawned from, the newest first. */
  checkpoints(sandboxId: string, request?: Given<typeof CheckpointsRequest>): Promise<Page<Checkpoint>>
  /**
   * Which of these sandboxes have changed, whenever some have, and with `newest` also that a new one was made. The
   * first time, none has: from then on nothing is missed, and what was before is to be read. All watchers of a process share one
   * statement a second.
   */
  changes(request: Given<typeof ChangesRequest>): AsyncIterable<Change>
  /** The fleet at a glance: what there is, what is stuck, at risk or failing, and how it has gone lately. A few seconds old at most. */
  overview(): Promise<Overview>
  /** What the whole fleet has counted and what there is now, as Prometheus reads it. */
  metrics(): Promise<string>
  /** Whether everything answers that a request needs. Never thrown: what is away is in it. */
  health(): Promise<Health>
  /** The queues, as BullMQ's own objects: for Bull Board, or for a look of one's own. */
  queues(): Promise<OpenQueue[]>
  /** From now on nobody waits: all who do are answered with what there is. For a process that is about to stop. */
  stopWaiting(): void
  /** Ends all waiting and closes every connection. What was accepted is carried out all the same. */
  close(): Promise<void>
}

/** What a process has opened and looked at already; closed with the fleet. */
export type FleetFoundation = { handle: DbHandle; store: QueueStore; events: Events }

/** The side of Sandman that asks. It opens connections when it is first used, works on nothing, and needs no worker here. */
export function createFleet(options: FleetOptions, foundation?: FleetFoundation): Fleet {
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
  let opened = foundation && new Producer(foundation.store)
  let closing: Promise<void> | undefined
  const underWay = new Set<Promise<unknown>>()

  /** Every call passes here: a closed fleet says so, and a database that fails is explained. */
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

  function deps() {
    opened ??= new Producer(openStore({ databaseUrl, redisUrl, fleet, role: 'producer', events }))
    return { db, producer: opened, fleet, clock, events }
  }

  const tally = new Tally({ db, fleet, clock, events })
  const overview = shared(OVERVIEW_MS, () => readOverview({ ...deps(), limits }))
  const metrics = shared(OVERVIEW_MS, async () => readMetrics(db, fleet, await overview()))

  type Waiting = { wait?: number | undefined; signal?: AbortSignal | undefined }

  async function settled(found: Found, { wait = 0, signal }: Waiting): Promise<Answer> {
    const { id, settled_at } = found.operation
    if (settled_at !== null || wait === 0) return answer(found)
    const ended = await room.operation(id, { withinMs: wait, signal })
    return answer(ended ?? (await lookAgain(() => findOperations(db, { fleet, ids: [id] }))) ?? found)
  }

  /** What is known is told also when the database cannot be asked any more: what was accepted is, and its id must not be lost. */
  async function lookAgain<T>(look: () => Promise<T[]>): Promise<T | undefined> {
    try {
      return (await withDeadline(LAST_LOOK_MS, 'the last look', look))[0]
    } catch (error) {
      events.emit('operation.wait_failed', { error })
      return undefined
    }
  }

  async function ended(found: FoundExecution, { wait = 0, signal }: Waiting): Promise<ExecutionAnswer> {
    if (found.execution.ended_at !== null || wait === 0) return executionAnswer(found)
    const { id } = found.execution
    const last = await room.execution(id, hasEnded, { withinMs: wait, signal })
    return executionAnswer(last ?? (await lookAgain(() => findExecutions(db, { fleet, ids: [id] }))) ?? found)
  }

  async function requireSandbox(sandboxId: string): Promise<FoundSandbox> {
    const found = isSandboxId(sandboxId) && (await findSandbox(db, { fleet, id: sandboxId }))
    if (found) return found
    throw unknownSandbox(sandboxId, fleet)
  }

  async function requireExecution(executionId: string): Promise<FoundExecution> {
    const [found] = isExecutionId(executionId) ? await findExecutions(db, { fleet, ids: [executionId] }) : []
    if (found) return found
    const message = `There is no execution ${executionId} in fleet ${fleet}: check the id.`
    throw new SandmanError('execution_not_found', message, { details: { executionId, fleet } })
  }

  function verb(sandboxId: string, kind: Kind, options: Options, { wait, signal, idempotencyKey }: Waiting & Keyed) {
    return call(async () => {
      signal?.throwIfAborted()
      if (!isSandboxId(sandboxId)) throw unknownSandbox(sandboxId, fleet)
      return settled(await ask(deps(), { sandboxId, kind, options, idempotencyKey }), { wait, signal })
    })
  }

  function make(request: z.output<typeof SpawnRequest>, adopt?: Record<string, string | undefined>): Promise<Answer> {
    const { backend: name, ttl, metadata = {}, agentThreadId, wait, signal, idempotencyKey, ...spec } = request
    return call(async () => {
      const backend = backends.get(name)
      if (!backend) throw unknownBackend(name, [...backends.keys()])
      signal?.throwIfAborted()
      const { canPause, canSnapshot } = backend
      const requested = await askToSpawn(deps(), {
        backend: name,
        canPause,
        canSnapshot,
        spec: { ...spec, ...(adopt && { adopt }) },
        metadata,
        ttl: limitsOf(ttl),
        agentThreadId,
        idempotencyKey,
      })
      return settled(requested, { wait, signal })
    })
  }

  return {
    name: fleet,
    backends: [...backends.values()],
    spawn: async (request) => make(parseRequest(SpawnRequest, request)),
    async adopt(request) {
      const { ref, checkpointRef, ...rest } = parseRequest(AdoptRequest, request)
      return make(rest, { ref, checkpointRef })
    },
    async pause(sandboxId, request = {}) {
      const { ifUnsupported, ifBusy, ...asking } = parseRequest(PauseRequest, request)
      const options = {
        ...(ifUnsupported && { if_unsupported: ifUnsupported }),
        ...(ifBusy && { if_busy: ifBusy }),
      }
      return verb(sandboxId, 'pause', options, asking)
    },
    async resume(sandboxId, request = {}) {
      const { ifLost, skipHooks, ...asking } = parseRequest(ResumeRequest, request)
      const options = { ...(ifLost && { if_lost: ifLost }), ...(skipHooks && { hooks: 'skip' as const }) }
      return verb(sandboxId, 'resume', options, asking)
    },
    async snapshot(sandboxId, request = {}) {
      const { name, ...asking } = parseRequest(SnapshotRequest, request)
      return verb(sandboxId, 'snapshot', { ...(name !== undefined && { name }) }, asking)
    },
    kill: async (sandboxId, request = {}) => verb(sandboxId, 'kill', {}, parseRequest(TeardownRequest, request)),
    destroy: async (sandboxId, request = {}) => verb(sandboxId, 'destroy', {}, parseRequest(TeardownRequest, request)),
    async operation(operationId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        const [found] = isOperationId(operationId) ? await findOperations(db, { fleet, ids: [operationId] }) : []
        if (found) return settled(found, waiting)
        throw new SandmanError(
          'operation_not_found',
          `There is no operation ${operationId} in fleet ${fleet}: check the id.`,
          {
            details: { operationId, fleet },
          },
        )
      })
    },
    get: (sandboxId) =>
      call(async () => {
        const { sandbox, checkpoint } = await requireSandbox(sandboxId)
        return viewSandbox(sandbox, checkpoint)
      }),
    touch: (sandboxId) =>
      call(async () => {
        const found = isSandboxId(sandboxId) && (await touch(db, { fleet, id: sandboxId, clock }))
        if (found) return viewSandbox(found.sandbox, found.checkpoint)
        throw unknownSandbox(sandboxId, fleet)
      }),
    why: (sandboxId) =>
      call(async () => {
        const why = isSandboxId(sandboxId) && (await findWhy(db, { fleet, id: sandboxId }))
        if (why) return why
        throw unknownSandbox(sandboxId, fleet)
      }),
    async sweep(request = {}) {
      const asked = parseRequest(SweepRequest, request)
      return call(async () => {
        asked.signal?.throwIfAborted()
        const { backend: name } = asked
        if (name !== undefined && !backends.has(name) && !(await listBackends(db, fleet)).includes(name))
          throw unknownBackend(name, [...backends.keys()])
        return askToSweep({ ...deps(), limits }, asked)
      })
    },
    async execute(sandboxId, request = {}) {
      const { wait, signal, idempotencyKey, command, ifSuspended, ifLost, ...bounds } = parseRequest(
        ExecuteRequest,
        request,
      )
      return call(async () => {
        signal?.throwIfAborted()
        if (!isSandboxId(sandboxId)) throw unknownSandbox(sandboxId, fleet)
        const options = { ...(ifSuspended && { if_suspended: ifSuspended }), ...(ifLost && { if_lost: ifLost }) }
        const found = await askToExecute(deps(), {
          sandboxId,
          command,
          options,
          hardDeadlineMs: bounds.deadline,
          silenceMs: bounds.silence,
          outputBytesMax: bounds.outputBytesMax,
          idempotencyKey,
        })
        return ended(found, { wait, signal })
      })
    },
    async execution(executionId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        return ended(await requireExecution(executionId), waiting)
      })
    },
    async executions(request = {}) {
      const { sandboxId, status, cursor, limit } = parseRequest(ExecutionsRequest, request)
      return call(async () => {
        const found = await listExecutions(db, { fleet, sandboxId, status, before: cursor, max: limit })
        return pageOf(found.map(viewExecution), limit)
      })
    },
    async cancel(executionId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        await requireExecution(executionId)
        await askToCancel(deps(), executionId)
        return ended(await requireExecution(executionId), waiting)
      })
    },
    output: (executionId, request = {}) =>
      leavable(async function* (left) {
        const { from, signal } = parseRequest(OutputRequest, request)
        await call(() => requireExecution(executionId))
        try {
          const either = signal ? AbortSignal.any([signal, left]) : left
          yield* streamOutput({ db, room }, { executionId, from, signal: either })
        } catch (error) {
          throw closing && !isSandmanError(error) ? closed() : explainDbError(error, databaseUrl)
        }
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
      leavable(async function* (left) {
        const { signal, ...watched } = parseRequest(ChangesRequest, request)
        if (closing) throw closed()
        yield* changes.watch(watched, signal ? AbortSignal.any([signal, left]) : left)
      }),
    overview: () => call(overview),
    metrics: () => call(metrics),
    health: () => call(() => checkHealth(deps())),
    queues: () => call(() => deps().producer.all()),
    stopWaiting: () => room.hurry(),
    close() {
      closing ??= close()
      return closing
    },
  }
}

/** The id of the last one of a full page is where the next page begins. */
function pageOf<Item extends { id: string | number }>(items: Item[], limit: number): Page<Item> {
  const last = items.length < limit ? undefined : items.at(-1)
  return { items, nextCursor: last ? String(last.id) : null }
}

type Keyed = { idempotencyKey?: string | undefined }
type Found = Pick<Requested & FoundOperation, 'operation' | 'sandbox' | 'checkpoint'>

function answer({ operation, sandbox, checkpoint }: Found): Answer {
  return { operation: viewOperation(operation), sandbox: viewSandbox(sandbox, checkpoint) }
}

function closed(): SandmanError {
  return new SandmanError('fleet_closed', 'The fleet is closed: create a new one.')
}

function executionAnswer({ execution, sandbox, checkpoint }: FoundExecution): ExecutionAnswer {
  return { execution: viewExecution(execution), sandbox: viewSandbox(sandbox, checkpoint) }
}

function hasEnded({ execution }: FoundExecution): boolean {
  return execution.ended_at !== null
}

function unknownBackend(name: string, known: string[]): SandmanError {
  const message = `There is no backend ${name}; there are: ${known.join(', ')}.`
  return new SandmanError('backend_unknown', message, { details: { name } })
}

function unknownSandbox(sandboxId: string, fleet: string): SandmanError {
  return new SandmanError('sandbox_not_found', `There is no sandbox ${sandboxId} in fleet ${fleet}: check the id.`, {
    details: { sandboxId, fleet },
  })
}
