import type { Processor, Queue, QueueOptions, Worker, WorkerOptions } from 'bullmq'
import { withDeadline } from '../../deadline.ts'
import { describeError, SandmanError } from '../../errors.ts'
import type { Events } from '../../events.ts'
import type { QueueName } from '../names.ts'

/** What a look at the store showed. */
export type StoreFacts = {
  version: string
  /** The store's own clock: BullMQ times delays and locks by it, or by ours. */
  clockMs: number
  /** Set when Redis may throw jobs away under memory pressure. */
  evictionPolicy: string | undefined
}

/** Where the jobs are kept, as BullMQ sees it. The one door to Redis and to BullMQ on Postgres. */
export type QueueStore = {
  /** For people; without secrets. */
  where: string
  queue(name: QueueName, options: Omit<QueueOptions, 'connection' | 'prefix'>): Queue
  worker(name: QueueName, processor: Processor, options: Omit<WorkerOptions, 'connection' | 'prefix'>): Worker
  look(): Promise<StoreFacts>
  /** Errors that BullMQ raises outside of any call: a lost connection is said once, anything else each time. */
  report(error: unknown): void
  /** Connections that are busy for longer are cut. */
  close(withinMs?: number): Promise<void>
}

export type StoreOptions = {
  redisUrl: string | undefined
  databaseUrl: string
  fleet: string
  /**
   * A producer has somebody waiting: it fails at once when the store is away. A consumer has time: it reconnects for as
   * long as it takes.
   */
  role: 'producer' | 'consumer'
  /** How many queues will be consumed: each needs a connection of its own to wait on. */
  consumers?: number
  events: Events
}

/** How long a producer waits for the store before it tells its caller. */
export const PRODUCE_MS = 2_000

/** A queue's name in a store that several fleets may share. A fleet's name has no dot, so no two can be confused. */
export function qualifiedName(fleet: string, name: QueueName): string {
  return `${fleet}.${name}`
}

/** Asks the store for something, with a deadline, and fails with one clear sentence. */
export async function ask<T>(store: Pick<QueueStore, 'where'>, what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await withDeadline(PRODUCE_MS, store.where, work)
  } catch (error) {
    const why = describeError(error)
    const where = why.includes(store.where) ? why : `${store.where}: ${why}`
    throw new SandmanError('queue_unreachable', `${what}: the queue does not answer (${where})`, { cause: error })
  }
}

/** Told by a store's clients how they are. */
export type ConnectionWatch = { lost(error: unknown): void; restored(): void; report(error: unknown): void }
