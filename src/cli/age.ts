const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** Short, for a column: the largest unit that there are two of, or a second. */
export function age(ms: number): string {
  const past = Math.max(0, ms) // clocks differ
  const [unit, size] = UNITS.find(([, each]) => past >= 2 * each) ?? ['s', 1_000]
  return `${Math.floor(past / size)}${unit}`
}

/** How long something has taken, for a line that is read right after it. */
export function took(ms: number): string {
  return ms < 10_000 ? `${(Math.max(0, ms) / 1_000).toFixed(1)}s` : age(ms)
}
