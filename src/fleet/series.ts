import type { Counted } from '../db/tallies.ts'
import { BACKEND_CHARS_MAX } from './bounds.ts'
import { bucketOf } from './histogram.ts'
import { describedAs, LABELS, type LabelName, type MetricName } from './metric-table.ts'

export type Given = Partial<Record<LabelName, unknown>>

/** What tells one series from all others: a metric, and what its labels say. */
export function keyOf(name: MetricName, given: Given): string {
  let key: string = name
  for (const label of describedAs(name).labels) key += `\n${wordFor(label, given[label])}`
  return key
}

/** What was counted of one metric with the same labels: how much; of a histogram also how often up to which bound. */
export class Series {
  readonly #name: MetricName
  readonly #labels: Record<string, string>
  readonly #trend: boolean
  readonly #total: Counted
  readonly #buckets: Map<string, Counted> | undefined

  constructor(name: MetricName, given: Given) {
    const { type, labels, trend } = describedAs(name)
    this.#name = name
    this.#labels = Object.fromEntries(labels.map((label) => [label, wordFor(label, given[label])]))
    this.#trend = isTrend(trend, this.#labels)
    const isHistogram = type === 'histogram'
    const total = isHistogram ? { name: `${name}_sum`, trend: false } : { name, trend: this.#trend }
    this.#total = { ...total, labels: this.#labels, value: 0 }
    this.#buckets = isHistogram ? new Map() : undefined
  }

  add(value: number): void {
    this.#total.value += value
    if (this.#buckets) this.#addToBucket(bucketOf(value), 1)
  }

  addAll(other: Series): void {
    this.#total.value += other.#total.value
    for (const [le, { value }] of other.#buckets ?? []) this.#addToBucket(le, value)
  }

  counted(): Counted[] {
    return [this.#total, ...(this.#buckets?.values() ?? [])]
  }

  #addToBucket(le: string, value: number): void {
    const known = this.#buckets?.get(le)
    if (known) known.value += value
    else {
      const labels = { ...this.#labels, le }
      this.#buckets?.set(le, { name: `${this.#name}_bucket`, labels, value, trend: this.#trend })
    }
  }
}

function isTrend(trend: ReturnType<typeof describedAs>['trend'], labels: Record<string, string>): boolean {
  if (trend === undefined || trend === true) return trend === true
  return Object.entries(labels).every(([name, is]) => (trend[name as LabelName] ?? is) === is)
}

/** A word that is known, or `other`: whatever an event says, there are only so many series. */
function wordFor(label: LabelName, given: unknown): string {
  const known: string | readonly string[] = LABELS[label]
  const text = String(given ?? 'none')
  if (typeof known === 'string') return text.slice(0, BACKEND_CHARS_MAX)
  return known.includes(text) ? text : 'other'
}
