/** How long a worker leaves a job alone whose backend it does not have: for one that has, or until there is one. */
const NOT_MINE_MS = [50, 5_000] as const

/** A part of the time that it has waited, by chance, so that workers do not keep step: soon while one of several may have it. */
export function notMineMs(since: Date): number {
  const [leastMs, mostMs] = NOT_MINE_MS
  const waitedMs = Math.max(0, Date.now() - since.getTime())
  return Math.min(mostMs, leastMs + Math.round((Math.random() * waitedMs) / 4))
}
