/** Upper bounds in seconds, of what takes from a hundredth of a second to a day. Few, because each is a number kept for every label. */
export const SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 86_400] as const

/** The bucket that a value falls into, by its upper bound as it is written. */
export function bucketOf(seconds: number): string {
  return String(SECONDS.find((upTo) => seconds <= upTo) ?? '+Inf')
}

/**
 * The value that this share of all does not exceed, as exactly as buckets tell: within a bucket, all are taken to be spread
 * evenly. Null when nothing was counted. Beyond the last bound, that bound is all that is known.
 */
export function quantile(buckets: ReadonlyMap<number, number>, share: number): number | null {
  const sorted = [...buckets].sort(([a], [b]) => a - b)
  const wanted = share * sorted.reduce((sum, [, count]) => sum + count, 0)
  if (wanted === 0) return null
  let below = 0
  for (const [upTo, count] of sorted) {
    if (below + count >= wanted) {
      const from = SECONDS.findLast((bound) => bound < upTo) ?? 0
      return upTo === Number.POSITIVE_INFINITY ? from : from + ((upTo - from) * (wanted - below)) / count
    }
    below += count
  }
  return null
}
