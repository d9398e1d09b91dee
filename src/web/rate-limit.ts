import type { Rate } from '../config-values.ts'

/** How many callers are remembered. Whoever was not seen for longest is forgotten first, and begins anew. */
const REMEMBERED_MAX = 10_000

/** What is left to a caller: how much of the rate at once, and how long until there is more. */
export type Allowance = { isAllowed: boolean; limit: number; remaining: number; waitMs: number }

/** One bucket a caller: as many requests at once as the rate says for its time, refilled evenly. In memory, for this process. */
export class Buckets {
  readonly #rate: Rate
  readonly #nowMs: () => number
  readonly #max: number
  readonly #buckets = new Map<string, { left: number; atMs: number }>()

  constructor(rate: Rate, { nowMs, max = REMEMBERED_MAX }: { nowMs: () => number; max?: number }) {
    this.#rate = rate
    this.#nowMs = nowMs
    this.#max = max
  }

  get size(): number {
    return this.#buckets.size
  }

  /** Takes one, if there is one. */
  take(caller: string): Allowance {
    const left = this.#leftTo(caller)
    const isAllowed = left >= 1
    this.#buckets.delete(caller) // the newest is last
    this.#buckets.set(caller, { left: isAllowed ? left - 1 : left, atMs: this.#nowMs() })
    const [oldest] = this.#buckets.keys()
    if (this.#buckets.size > this.#max && oldest !== undefined) this.#buckets.delete(oldest)
    return this.#tell(isAllowed, isAllowed ? left - 1 : left)
  }

  /** What `take` would say, without taking anything. */
  look(caller: string): Allowance {
    const left = this.#leftTo(caller)
    return this.#tell(left >= 1, left)
  }

  #leftTo(caller: string): number {
    const { count, perMs } = this.#rate
    const bucket = this.#buckets.get(caller)
    if (!bucket) return count
    return Math.min(count, bucket.left + (Math.max(0, this.#nowMs() - bucket.atMs) * count) / perMs)
  }

  #tell(isAllowed: boolean, left: number): Allowance {
    const { count, perMs } = this.#rate
    return {
      isAllowed,
      limit: count,
      remaining: Math.floor(left),
      waitMs: Math.max(0, ((1 - left) * perMs) / count),
    }
  }
}

/** Things that were seen lately, so many at most. */
export class Lately {
  readonly #max: number
  readonly #seen = new Set<string>()

  constructor(max = REMEMBERED_MAX) {
    this.#max = max
  }

  add(what: string): void {
    this.#seen.delete(what)
    this.#seen.add(what)
    const [oldest] = this.#seen
    if (this.#seen.size > this.#max && oldest !== undefined) this.#seen.delete(oldest)
  }

  has(what: string): boolean {
    return this.#seen.has(what)
  }
}
