import { isDeepStrictEqual } from 'node:util'
import type { Queue } from 'bullmq'
import { withDeadline } from '../../deadline.ts'
import { type Backoff, KEEP_DONE, KEEP_FAILED, parsePayload, type QueueDefinition } from '../define.ts'
import { QUEUE_NAMES, type QueueName } from '../names.ts'
import { ask, PRODUCE_MS, type QueueStore } from './store.ts'

/** So many times in a row a scheduled job may be late before it is taken to be lost. */
const SCHEDULE_LATE = 5

type QueueCounts = {
  waiting: number
  active: number
  delayed: number
  failed: number
  /** How long the first in line has waited; null when none waits. */
  oldestMs: number | null
}

export type OpenQueue = { name: QueueName; queue: Queue }

/** The side that web apps need: rings queues and looks at them, and never works on a job. */
export class Producer {
  readonly store: QueueStore
  readonly #queues = new Map<QueueName, { queue: Queue; ready: Promise<Queue> }>()

  constructor(store: QueueStore) {
    this.store = store
  }

  /**
   * Tells the workers that there is something to do. The caller's row is committed before this, so a ring that fails here
   * costs time and no work. Equal rings fold while one waits; one that comes during the work rings again after it.
   */
  async ring<Payload>(definition: QueueDefinition<Payload>, payload: Payload): Promise<void> {
    const data = parsePayload(definition, payload)
    await ask(this.store, `Queue ${definition.name} was not rung`, async () => {
      const queue = await this.#open(definition.name)
      await queue.add(definition.name, data, {
        attempts: definition.attemptsMax,
        backoff: backoffOptions(definition.backoff),
        // Not the job id: BullMQ drops an add whose id is still kept from an earlier, finished job.
        deduplication: { id: definition.dedupeKey(data), keepLastIfActive: true },
      })
    })
  }

  /**
   * Sees to it that a job with this payload is made again and again. Looks first: making a schedule anew begins its time anew, and
   * every worker of a fleet asks for it. One that has been due for long has lost its job, and is made anew.
   */
  async schedule<Payload>(
    definition: QueueDefinition<Payload>,
    id: string,
    payload: Payload,
  ): Promise<'there' | 'made'> {
    const data = parsePayload(definition, payload)
    const { everyMs: every = 0 } = definition
    return ask(this.store, `Queue ${definition.name} was not given its schedule`, async () => {
      const queue = await this.#open(definition.name)
      const known = await queue.getJobScheduler(id)
      const isAlive = known?.every === every && (known.next ?? 0) > Date.now() - SCHEDULE_LATE * every
      // One without data is given back without any, and on Postgres its keys in another order.
      if (isAlive && isDeepStrictEqual(known.template?.data ?? {}, data)) return 'there'
      const opts = { attempts: definition.attemptsMax, backoff: backoffOptions(definition.backoff) }
      await queue.upsertJobScheduler(id, { every }, { name: definition.name, data, opts })
      return 'made'
    })
  }

  /** The next job of a schedule is taken away with it. */
  async unschedule(definition: QueueDefinition, id: string): Promise<void> {
    await ask(this.store, `Schedule ${id} was not removed`, async () =>
      (await this.#open(definition.name)).removeJobScheduler(id),
    )
  }

  async counts(): Promise<Record<QueueName, QueueCounts>> {
    const entries = await Promise.all(
      QUEUE_NAMES.map(async (name) => {
        const counts = await ask(this.store, `Queue ${name} was not counted`, async () => count(await this.#open(name)))
        return [name, counts] as const
      }),
    )
    return Object.fromEntries(entries) as Record<QueueName, QueueCounts>
  }

  /** Every queue, as BullMQ's own objects: what Bull Board shows. */
  async all(): Promise<OpenQueue[]> {
    return ask(this.store, 'The queues were not opened', () =>
      Promise.all(QUEUE_NAMES.map(async (name) => ({ name, queue: await this.#open(name) }))),
    )
  }

  /** A store that is away cannot say goodbye, and is not waited for. */
  async close(withinMs = PRODUCE_MS): Promise<void> {
    const beganAtMs = performance.now()
    const closing = [...this.#queues.values()].map(({ queue }) => queue.close())
    await withDeadline(withinMs, this.store.where, () => Promise.allSettled(closing)).catch(() => {})
    await this.store.close(Math.max(0, withinMs - (performance.now() - beganAtMs)))
  }

  /** BullMQ remembers for ever that a queue could not be opened, so one that failed is thrown away and opened anew. */
  #open(name: QueueName): Promise<Queue> {
    const known = this.#queues.get(name)
    if (known) return known.ready
    // For every job of the queue, also one that was added by hand in Bull Board.
    const queue = this.store.queue(name, {
      defaultJobOptions: {
        removeOnComplete: { count: KEEP_DONE.count, age: KEEP_DONE.ageSeconds },
        removeOnFail: { count: KEEP_FAILED.count, age: KEEP_FAILED.ageSeconds },
      },
    })
    queue.on('error', (error) => this.store.report(error))
    const ready = queue.waitUntilReady().then(
      () => queue,
      async (error) => {
        this.#queues.delete(name)
        await queue.close().catch(() => {})
        throw error
      },
    )
    ready.catch(() => {}) // whoever asked is told; nobody else needs to be
    this.#queues.set(name, { queue, ready })
    return ready
  }
}

async function count(queue: Queue): Promise<QueueCounts> {
  const counts = await queue.getJobCounts('wait', 'prioritized', 'active', 'delayed', 'failed')
  const { wait = 0, prioritized = 0, active = 0, delayed = 0, failed = 0 } = counts
  const [first] = wait > 0 ? await queue.getWaiting(0, 0) : []
  // One that was tried before, or has slept, waits since then and not since it was made.
  const since = first && Math.max(first.timestamp + (first.opts.delay ?? 0), first.processedOn ?? 0)
  const oldestMs = since === undefined ? null : Math.max(0, Date.now() - since)
  return { waiting: wait + prioritized, active, delayed, failed, oldestMs }
}

function backoffOptions(backoff: Backoff) {
  return backoff.kind === 'fixed'
    ? { type: 'fixed', delay: backoff.delayMs }
    : { type: 'exponential', delay: backoff.delayMs, jitter: backoff.jitter }
}
