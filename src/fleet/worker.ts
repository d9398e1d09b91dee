import os from 'node:os'
import type { Backend } from '../backends/backend.ts'
import { BACKENDS } from '../backends/catalog.ts'
import { type Clock, runningClock } from '../clock.ts'
import type { DbHandle } from '../db/pool.ts'
import { withDeadline } from '../deadline.ts'
import { Events } from '../events.ts'
import { beginGrace } from '../grace.ts'
import { signCanary } from '../jobs/canary.ts'
import { performExecution } from '../jobs/execution.ts'
import { HOUSEKEEPING, type Housekeeping } from '../jobs/housekeeping.ts'
import { type JobDeps, performOperation, takingOf, type Verb } from '../jobs/operation.ts'
import { PATIENCE, type Patience } from '../jobs/patience.ts'
import { reap } from '../jobs/reap.ts'
import { RollCall } from '../jobs/roll-call.ts'
import { Scribe } from '../jobs/scribe.ts'
import { sweep } from '../jobs/sweep.ts'
import { openSettler, openTaker } from '../jobs/together.ts'
import { VERBS } from '../jobs/verbs.ts'
import { type Consumer, consume, type Handler } from '../queues/bullmq/consumer.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import type { QueueStore } from '../queues/bullmq/store.ts'
import { canaryQueue } from '../queues/canary.ts'
import type { QueueDefinition } from '../queues/define.ts'
import type { QueueName } from '../queues/names.ts'
import { reaperQueue } from '../queues/reaper.ts'
import { streamsQueue } from '../queues/streams.ts'
import { sweeperQueue } from '../queues/sweeper.ts'
import { Announcer } from './announcer.ts'
import { keepRinging, ring, ringForExecutions } from './bell.ts'
import { layFoundation, type RunningConfig } from './foundation.ts'
import { endSweeps, keepScheduling } from './schedules.ts'
import type { Running } from './shutdown.ts'
import { Tally } from './tally.ts'
import { traced } from './tracing.ts'

export type WorkerParts = {
  /** Besides those that the configuration switches on. Closed with the worker. */
  backends?: readonly Backend[]
  patience?: Patience
  housekeeping?: Housekeeping
  /** How often it looks for what nobody has heard of, when that is not the usual. */
  ringEveryMs?: number
}

/** What a worker stands on. */
export type Ground = {
  handle: Pick<DbHandle, 'db' | 'close'>
  store: QueueStore
  producer: Producer
  backends: ReadonlyMap<string, Backend>
  clock: Clock
  workerName: string
}

type WorkConfig = Pick<RunningConfig, 'fleet' | 'ttl' | 'keep' | 'destroyMax' | 'sweeper' | 'queues' | 'graceMs'>

/** Takes jobs from the queues until it is stopped. Stateless: any number of them, on any number of machines. */
export async function startWorker(config: RunningConfig, events: Events, parts: WorkerParts = {}): Promise<Running> {
  return traced(config, { name: 'worker', events }, (adjusted) => start(adjusted, events, parts))
}

async function start(config: RunningConfig, events: Events, parts: WorkerParts): Promise<Running> {
  const { handle, store } = await layFoundation(config, { role: 'consumer', name: 'worker', events })
  const backends = await openBackends(config, parts.backends ?? []).catch(async (error: unknown) => {
    await Promise.all([store.close(), handle.close()])
    throw error
  })
  const workerName = `${os.hostname()}-${process.pid}`
  // Silent: the consumers' connection to the same store already says when it is lost.
  const producer = new Producer(openStore({ ...config, role: 'producer', events: new Events() }))
  return takeUpWork(config, { handle, store, producer, backends, clock: runningClock, workerName }, events, parts)
}

/** The work itself, on whatever it was given to stand on, which it closes when it stops. */
export function takeUpWork(config: WorkConfig, ground: Ground, events: Events, parts: WorkerParts = {}): Running {
  const { handle, store, producer, backends, clock, workerName } = ground
  const { fleet } = config
  const base = { db: handle.db, clock, fleet, worker: workerName, events }
  const bell = { ...base, producer }
  const announcer = new Announcer(base)
  const tally = new Tally(base)
  const deps: JobDeps = {
    ...base,
    backends,
    limits: config.ttl,
    settler: openSettler(handle.db, clock),
    ...(parts.patience && { patience: parts.patience }),
    ring: (due) => ring(bell, due),
    ringForExecutions: (executionIds) => ringForExecutions(bell, executionIds),
    announce: (ids) => announcer.announce(ids),
  }
  const { overdueMs } = parts.patience ?? PATIENCE
  const { housekeeping = HOUSEKEEPING } = parts
  const keeping = { housekeeping, limits: config.ttl, keep: config.keep, destroyMax: config.destroyMax }
  const streams = { ...deps, scribe: new Scribe(base), rollCall: new RollCall({ ...base, overdueMs }) }

  const take = <Payload>(queue: QueueDefinition<Payload>, handler: Handler<Payload>): Consumer =>
    consume({ store, queue, handler, workerName, events })
  const sweeping = {
    ...deps,
    ...keeping,
    mayAct: config.sweeper === 'act',
    endSweeps: (backend: string) => endSweeps(bell.producer, backend),
  }
  const takeOperations = (verb: Verb): Consumer => {
    const own = { ...deps, taker: openTaker(handle.db, takingOf(deps, verb)) }
    return take(verb.queue, (payload, context) => performOperation(own, verb, payload, context))
  }
  const consumed: Record<QueueName, () => Consumer> = {
    canary: () => take(canaryQueue, (payload) => signCanary(deps, payload)),
    spawn: () => takeOperations(VERBS.spawn),
    pause: () => takeOperations(VERBS.pause),
    resume: () => takeOperations(VERBS.resume),
    snapshot: () => takeOperations(VERBS.snapshot),
    teardown: () => takeOperations(VERBS.destroy),
    streams: () => take(streamsQueue, (payload, context) => performExecution(streams, payload, context)),
    reaper: () => take(reaperQueue, (_payload, context) => reap({ ...streams, ...keeping }, context)),
    sweeper: () => take(sweeperQueue, (payload, context) => sweep(sweeping, payload, context)),
  }
  const consumers = config.queues.map((name) => consumed[name]())
  const ringing = keepRinging(bell, parts.ringEveryMs === undefined ? {} : { everyMs: parts.ringEveryMs })
  const scheduling = keepScheduling({ ...bell, queues: config.queues, backends: [...backends.keys()] })
  events.emit('process.started', {
    worker: workerName,
    queues: config.queues,
    backends: [...backends.keys()],
    sweeper: config.sweeper,
    store: store.where,
  })

  const stop = async () => {
    const grace = beginGrace(config.graceMs)
    const inTime = (ms: number, what: string, work: () => Promise<unknown>) =>
      withDeadline(ms, what, work).catch(() => {})
    const handBackMs = grace.msFor('handingOver')
    await Promise.all([
      ...consumers.map((consumer) => consumer.stop(grace.workMs, handBackMs)),
      // Its last look may hang with the database; what it was about to ring for comes up again.
      inTime(grace.workMs + handBackMs, 'the last look', () => Promise.all([ringing.stop(), scheduling.stop()])),
    ])
    const lastWordsMs = grace.msFor('lastWords')
    await Promise.all([inTime(lastWordsMs, 'the last notice', () => announcer.close()), tally.close(lastWordsMs)])
    const closingMs = grace.msFor('closing')
    await Promise.all([
      store.close(closingMs),
      producer.close(closingMs),
      handle.close(closingMs),
      ...[...backends.values()].map((backend) => inTime(closingMs, backend.name, () => backend.close())),
    ])
  }
  let stopping: Promise<void> | undefined
  return {
    stop() {
      stopping ??= stop()
      return stopping
    },
  }
}

async function openBackends(config: RunningConfig, given: readonly Backend[]): Promise<Map<string, Backend>> {
  const opened = await Promise.all(config.backends.map((name) => BACKENDS[name].open(config)))
  return new Map([...opened, ...given].map((backend) => [backend.name, backend]))
}
