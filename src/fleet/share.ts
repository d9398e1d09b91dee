/** What it cost to read is at most this part of what it costs all the time. */
const REST = 10
/** However long it took: nobody wants to look at what was true longer ago than this. */
const STALE_MS_MAX = 10_000

/**
 * However many ask, it is read once at a time, and not again for so long, or for many times as long as it took. What failed is
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
