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

/** As short as it can be read, for a column: the largest unit that there are two of, or seconds. `console.js` goes on counting so. */
export function age(ms: number): string {
  const past = Math.max(0, ms) // clocks differ
  const [unit, size] = UNITS.find(([, each]) => each >= 1_000 && past >= 2 * each) ?? ['second', 1_000]
  return `${Math.floor(past / size)}${unit.charAt(0)}`
}

export function count(number: number, thing: string): string {
  const ending = number === 1 ? '' : thing.endsWith('x') ? 'es' : 's'
  return `${number} ${thing}${ending}`
}

/** How much that is, to three digits or so. */
export function size(bytes: number): string {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10))
  const unit = ['', 'KiB', 'MiB', 'GiB', 'TiB'][power]
  return unit ? `${Math.round((bytes / 1024 ** power) * 10) / 10} ${unit}` : count(bytes, 'byte')
}

/** Empty where it is not known, or 0: a checkpoint without files of its own, as that of a frozen sandbox, has no size to tell. */
export function checkpointSize(bytes: unknown): string {
  return typeof bytes === 'number' && bytes > 0 ? size(bytes) : ''
}

/** A word of the code, as people read it. */
export function inWords(name: string): string {
  return name.replaceAll('_', ' ')
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
