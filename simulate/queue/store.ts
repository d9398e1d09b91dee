import type { Processor, Queue, Worker } from 'bullmq'
import type { QueueStore } from '../../src/queues/bullmq/store.ts'
import { QUEUE_NAMES, type QueueName } from '../../src/queues/names.ts'
import type { Conduct } from '../conduct.ts'
import type { Engine } from '../engine.ts'
import { type Life, requireLife } from '../life.ts'
import { type Backoff, SimulatedQueue, type Taker } from './queue.ts'
import { workOn } from './worker.ts'

/** Tells the store something, and waits for its answer. */
export type Command = <T>(what: string, work: () => T) => Promise<T>

type AddOptions = { attempts: number; backoff: Backoff; deduplication: { id: string } }
type Template = { data: unknown; opts: { attempts: number; backoff: Backoff } }

/** How often jobs are looked for that were left behind. */
const STALLED_CHECK_MS = 4_000

/**
 * The store of the queues, in the place of Redis: with BullMQ's semantics as far as Sandman's own producer and consumer, which are
 * the real ones, make use of them. What it is told may be lost or come twice, and it may forget everything.
 */
export class SimulatedStore {
  readonly #engine: Engine
  readonly #conduct: Conduct
  readonly #queues: Map<QueueName, SimulatedQueue>

  constructor(engine: Engine, conduct: Conduct) {
    this.#engine = engine
    this.#conduct = conduct
    this.#queues = new Map(QUEUE_NAMES.map((name) => [name, new SimulatedQueue(name, engine, conduct)]))
    this.#checkStalled()
  }

  #checkStalled(): void {
    this.#engine.after(STALLED_CHECK_MS, 'looks for stalled jobs', () => {
      for (const queue of this.#queues.values()) queue.takeBackStalled()
      this.#checkStalled()
    })
  }

  flush(): void {
    for (const queue of this.#queues.values()) queue.flush()
  }

  /** Jobs that wait, are delayed or at work. */
  count(): number {
    return [...this.#queues.values()].reduce((sum, { jobs }) => sum + jobs.size, 0)
  }

  /** As one process sees it. */
  open(): QueueStore {
    return {
      where: 'the simulated queue',
      queue: (name) => this.#queue(name) as unknown as Queue,
      worker: (name, processor, options) => this.#worker(name, processor, options) as unknown as Worker,
      look: async () => ({ version: 'simulated', clockMs: Date.now(), evictionPolicy: undefined }),
      report: () => {},
      close: async () => {},
    }
  }

  #find(name: QueueName): SimulatedQueue {
    return this.#queues.get(name) as SimulatedQueue
  }

  #commandOf(life: Life, queue: string): Command {
    return (what, work) =>
      new Promise((resolve, reject) => {
        const isAway = this.#conduct.happens('queue_away')
        const isRun = !isAway || this.#engine.random.chance(0.5)
        this.#engine.after(this.#conduct.queueMs(), `${life.name} tells ${queue}: ${what}`, () => {
          const answer = isRun ? work() : undefined
          this.#engine.reach(life, this.#conduct.queueMs(), `${queue} has heard: ${what}`, () => {
            if (isAway) reject(new Error('connect ECONNREFUSED'))
            else resolve(answer as Awaited<ReturnType<typeof work>>)
          })
        })
      })
  }

  #queue(name: QueueName) {
    const queue = this.#find(name)
    const command = this.#commandOf(requireLife(), name)
    const itself = {
      on: () => {},
      close: async () => {},
      waitUntilReady: async () => {},
      add: (_name: string, data: unknown, { attempts, backoff, deduplication }: AddOptions) =>
        command(`add ${JSON.stringify(data)}`, () => {
          if (this.#conduct.happens('ring_swallowed')) return
          const added = { data, attempts, backoff }
          queue.add({ ...added, dedupeId: deduplication.id })
          // As if its key had been forgotten in between.
          if (this.#conduct.happens('ring_doubled')) queue.add({ ...added, dedupeId: undefined })
        }),
      getJobScheduler: (id: string) =>
        command(`look at schedule ${id}`, () => {
          const known = queue.schedules.get(id)
          return known && { every: known.everyMs, next: known.nextMs, template: { data: known.data } }
        }),
      upsertJobScheduler: (id: string, { every }: { every: number }, { data, opts }: Template) =>
        command(`schedule ${id}`, () => queue.schedule(id, every, { data, ...opts })),
      removeJobScheduler: (id: string) => command(`remove schedule ${id}`, () => queue.unschedule(id)),
    }
    return itself
  }

  #worker(name: QueueName, processor: Processor, options: { concurrency?: number; lockDuration?: number }) {
    const life = requireLife()
    const queue = this.#find(name)
    const command = this.#commandOf(life, name)
    let free = () => {}
    const taker: Taker = {
      life,
      concurrency: options.concurrency ?? 1,
      lockMs: options.lockDuration ?? 30_000,
      active: 0,
      isClosing: false,
      begin: (job, token) =>
        life.do(() => {
          void workOn(queue, taker, { job, token, processor, command }).finally(() => {
            free()
            queue.offerAll()
          })
        }),
    }
    queue.takers.add(taker)
    queue.offerAll()
    life.atDeath(() => queue.takers.delete(taker))
    return {
      on: () => {},
      close: async () => {
        taker.isClosing = true
        queue.takers.delete(taker)
        while (taker.active > 0) await new Promise<void>((resolve) => (free = resolve))
      },
    }
  }
}
