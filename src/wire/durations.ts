const UNITS = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** As a request would say it: `90s`, `15m`, `24h`. Exact, whatever it is. */
export function printDuration(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms > 0 && ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
