const NS_OF_MS = 1_000_000n

/** So coarse that many lines have the same time. */
const COARSE_NS = 50n * NS_OF_MS

/** The time of day, to the nanosecond, and never the same twice; or, if it is coarse, the same for many. */
export class LogClock {
  readonly #isCoarse: boolean
  #anchorNs = 0n
  #lastNs = 0n

  constructor({ isCoarse }: { isCoarse: boolean }) {
    this.#isCoarse = isCoarse
  }

  now(): bigint {
    const fromNs = BigInt(Date.now()) * NS_OF_MS
    const hasTickedNs = process.hrtime.bigint()
    let atNs = this.#anchorNs + hasTickedNs
    // The finer clock is held to the one by which everybody else goes.
    if (atNs < fromNs || atNs >= fromNs + NS_OF_MS) [this.#anchorNs, atNs] = [fromNs - hasTickedNs, fromNs]
    if (this.#isCoarse) return atNs - (atNs % COARSE_NS)
    this.#lastNs = atNs > this.#lastNs ? atNs : this.#lastNs + 1n
    return this.#lastNs
  }
}
