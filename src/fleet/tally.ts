import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { addTallies } from '../db/tallies.ts'
import { withDeadline } from '../deadline.ts'
import type { Event, Events } from '../events.ts'
import type { MetricName } from './metric-table.ts'
import { type Given, keyOf, Series } from './series.ts'
import { COUNTING } from './tally-rules.ts'

/** Counts are written this long after the first of them, give or take 10 %. A process that is killed loses no more than that. */
export const FLUSH_MS = 10_000
const FLUSH_JITTER = 0.2

/** What happened once: how much of a counter, or how many seconds of a histogram. */
export type Happening = { name: MetricName; labels?: Given; value?: number }

type Deps = { db: Db; fleet: string; clock: Clock; events: Events }

/**
 * Counts what a process says of itself, and adds it now and then to what its whole fleet has counted: workers have nobody who would
 * ask them. What could not be added is kept for the next time. A process in which nothing happens does nothing.
 */
export class Tally {
  readonly #deps: Deps
  readonly #unsubscribe: () => void
  #series = new Map<string, Series>()
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(deps: Deps) {
    this.#deps = deps
    this.#unsubscribe = deps.events.subscribe((event) => this.#hear(event))
  }

  /** Adds the last of it, unless the database is away. */
  async close(withinMs: number): Promise<void> {
    this.#isClosed = true
    this.#unsubscribe()
    clearTimeout(this.#timer)
    await withDeadline(withinMs, 'the last of what was counted', () => this.flush()).catch(() => {})
  }

  flush(): Promise<void> {
    // One at a time, or what fails would be added twice, or in no order.
    this.#flushing = this.#flushing.then(() => this.#add())
    return this.#flushing
  }

  #hear({ name, fields }: Event): void {
    for (const happening of COUNTING[name]?.(fields) ?? []) this.#count(happening)
  }

  #count({ name, labels = {}, value = 1 }: Happening): void {
    // Many times for every operation, and nearly always of a series that is there.
    const key = keyOf(name, labels)
    const series = this.#series.get(key) ?? new Series(name, labels)
    series.add(value)
    this.#series.set(key, series)
    this.#timer ??= this.#isClosed ? undefined : setTimeout(() => void this.flush(), flushInMs()).unref()
  }

  async #add(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const series = this.#series
    this.#series = new Map()
    const counted = [...series.values()].flatMap((each) => each.counted())
    try {
      await addTallies(this.#deps.db, { ...this.#deps, counted })
    } catch (error) {
      for (const [key, since] of this.#series) {
        const before = series.get(key)
        if (before) before.addAll(since)
        else series.set(key, since)
      }
      this.#series = series
      if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), flushInMs()).unref()
      this.#deps.events.emit('tally.not_added', { error })
    }
  }
}

function flushInMs(): number {
  return FLUSH_MS * (1 + FLUSH_JITTER * (Math.random() - 0.5))
}
