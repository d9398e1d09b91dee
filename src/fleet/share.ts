/** After a read that took t, the next comes no sooner than REST × t later, so that reading takes a tenth of the time at most. */
const REST = 10
/** But no later than this, however long the read took: nobody wants to look at what was true longer ago. */
const STALE_MS_MAX = 10_000

/**
 * One reading for all who ask: it is kept for `freshMs`, or for `rest` times as long as it took, if that is longer. What failed is
 * read again by the next who asks.
 */
export function shared<T>(freshMs: number, read: () => Promise<T>, rest = REST): () => Promise<T> {
  let latest: { reading: Promise<T>; untilMs: number } | undefined
  return () => {
    if (latest && performance.now() < latest.untilMs) return latest.reading
    const beganAtMs = performance.now()
    const mine = { reading: read(), untilMs: Number.POSITIVE_INFINITY }
    latest = mine
    mine.reading.then(
      () => {
        const nowMs = performance.now()
        mine.untilMs = nowMs + Math.max(freshMs, Math.min(STALE_MS_MAX, rest * (nowMs - beganAtMs)))
      },
      () => {
        mine.untilMs = 0
      },
    )
    return mine.reading
  }
}
