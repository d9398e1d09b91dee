/** To the second, as it is everywhere on earth. */
export function when(at: Date | string): string {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString().replace('T', ' ').replace(/\.\d+/, '')
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
  ['millisecond', 1],
] as const

/** As people say it: the two largest units that there are any of. */
export function duration(ms: number): string {
  const parts = UNITS.map(([unit, size], index) => {
    const larger = UNITS[index - 1]?.[1] ?? Number.POSITIVE_INFINITY
    return [Math.floor((ms % larger) / size), unit] as const
  })
  const told = parts.filter(([number]) => number > 0).map(([number, unit]) => count(number, unit))
  return told.slice(0, 2).join(' and ') || 'no time'
}

export function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`
}
