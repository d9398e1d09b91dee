/** Words of others: what they have named is not ours to rename. */
const FOREIGN = ['metadata', 'detail']

/** As everything is on the wire: names in snake_case, times in RFC 3339. */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [snake(name), FOREIGN.includes(name) ? inner : toWire(inner)]),
  )
}

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export function printJson(value: unknown): string {
  return `${JSON.stringify(toWire(value), null, 2)}\n`
}

/** On one line, for something that prints many of them. */
export function printJsonLine(value: unknown): string {
  return `${JSON.stringify(toWire(value))}\n`
}
