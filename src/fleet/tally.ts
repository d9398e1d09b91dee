import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { addTallies, type Counted } from '../db/tallies.ts'
import { withDeadline } from '../deadline.ts'
import type { Event, Events } from '../events.ts'
import { bucketOf } from './histogram.ts'
import { describedAs, LABELS, type LabelName, type MetricName } from './metric-table.ts'
import { COUNTING } from './tally-rules.ts'

/** So long after something was counted, a part of it by chance: what a process that is killed has not told of yet. */
export const FLUSH_MS = 10_000
const FLUSH_JITTER = 0.2
const LAST_FLUSH_MS = 2_000
/** A backend's name is as long as it is; anything longer is none. */
const LABEL_MAX = 64

/** What happened once: how much of a counter, or how many seconds of a histogram. */
export type Happening = { name: MetricName; labels?: Partial<Record<LabelName, unknown>>; value?: number }

type Deps = { db: Db; fleet: string; clock: Clock; events: Events }
type Labels = [name: string, is: string][]
type Trend = ReturnType<typeof describedAs>['trend']

/**
 * Counts what a process says of itself, and adds it now and then to what its whole fleet has counted: workers have nobody who would
 * ask them. What could not be added is kept for the next time. A process in which nothing happens does nothing.
 */
export class Tally {
  readonly #deps: Deps
  readonly #unsubscribe: () => void
  #counted = new Map<string, Counted>()
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(deps: Deps) {
    this.#deps = deps
    this.#unsubscribe = deps.events.subscribe((event) => this.#hear(event))
  }

  /** Adds the last of it, unless the database is away. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#unsubscribe()
    clearTimeout(this.#timer)
    await withDeadline(LAST_FLUSH_MS, 'the last of what was counted', () => this.flush()).catch(() => {})
  }

  flush(): Promise<void> {
    // One at a time, or what fails would be added twice, or in no order.
    this.#flushing = this.#flushing.then(() => this.#add())
    return this.#flushing
  }

  #hear({ name, fields }: Event): void {
    for (const happening of COUNTING[name]?.(fields) ?? []) this.#count(happening)
  }

  #count({ name, labels: given = {}, value = 1 }: Happening): void {
    const { type, labels: known, trend } = describedAs(name)
    const labels: Labels = known.map((label) => [label, labelOf(label, given[label])])
    if (type === 'histogram') {
      this.#addTo(`${name}_bucket`, [...labels, ['le', bucketOf(value)]], 1, trend)
      this.#addTo(`${name}_sum`, labels, value, undefined)
    } else this.#addTo(name, labels, value, trend)
    this.#timer ??= this.#isClosed ? undefined : setTimeout(() => void this.flush(), flushInMs()).unref()
  }

  /** Many times for every operation, and nearly always to what is there: its name and labels are made of it only once. */
  #addTo(name: string, labels: Labels, value: number, trend: Trend): void {
    let key = name
    for (const [, is] of labels) key += `\n${is}`
    const known = this.#counted.get(key)
    if (known) known.value += value
    else this.#counted.set(key, { name, labels: Object.fromEntries(labels), value, trend: isTrend(trend, labels) })
  }

  async #add(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const counted = this.#counted
    this.#counted = new Map()
    try {
      await addTallies(this.#deps.db, { ...this.#deps, counted: [...counted.values()] })
    } catch (error) {
      for (const [key, since] of this.#counted) {
        const before = counted.get(key)
        counted.set(key, before ? { ...before, value: before.value + since.value } : since)
      }
      this.#counted = counted
      if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), flushInMs()).unref()
      this.#deps.events.emit('tally.not_added', { error })
    }
  }
}

function isTrend(trend: Trend, labels: Labels): boolean {
  if (trend === undefined || trend === true) return trend === true
  return labels.every(([name, is]) => (trend[name as LabelName] ?? is) === is)
}

function flushInMs(): number {
  return FLUSH_MS * (1 + FLUSH_JITTER * (Math.random() - 0.5))
}

/** A word that is known, or `other`: whatever an event says, there are only so many series. */
function labelOf(label: LabelName, given: unknown): string {
  const known: string | readonly string[] = LABELS[label]
  const text = String(given ?? 'none')
  if (typeof known === 'string') return text.slice(0, LABEL_MAX)
  return known.includes(text) ? text : 'other'
}
