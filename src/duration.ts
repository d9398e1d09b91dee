const UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof UNITS_MS

/** A duration in words, as everywhere in Sandman: `500ms`, `90s`, `15m`, `24h`. Inside, only milliseconds. */
export const DURATION = /^\d{1,15}(ms|s|m|h|d)$/

/** The longest one there is: whatever it is added to is still a time that every part of Sandman can write down. */
export const DURATION_MS_MAX = 10 * 365 * UNITS_MS.d

/** Limits that are shorter than this would end a sandbox before anybody has used it. */
export const LIMIT_MS_MIN = 1_000

export function parseDurationMs(text: string): number | undefined {
  const unit = DURATION.exec(text)?.[1] as Unit | undefined
  return unit && Number.parseInt(text, 10) * UNITS_MS[unit]
}

/** As a request would say it, in the largest unit that it is a whole number of, up to hours. Exact, whatever it is. */
export function printDuration(ms: number): string {
  const unit = (['h', 'm', 's'] as const).find((each) => ms > 0 && ms % UNITS_MS[each] === 0) ?? 'ms'
  return `${ms / UNITS_MS[unit]}${unit}`
}
