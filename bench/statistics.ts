/** The middle one, which a moment in which the machine did something else does not move. */
export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** The least value that so many percent of all do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const at = Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)
  const value = sorted[at]
  if (value === undefined) throw new Error('nothing was measured')
  return value
}

/** To so many digits that count: more than these are noise. */
export function rounded(value: number, digits = 3): number {
  return Number(value.toPrecision(digits))
}

export type Percentiles = { p50: number; p99: number }

/** Of something that is waited for: how long as a rule, and how long at worst. */
export function percentiles(values: readonly number[]): Percentiles {
  return { p50: rounded(percentile(values, 50)), p99: rounded(percentile(values, 99)) }
}
