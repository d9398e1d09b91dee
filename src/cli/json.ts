import { snake } from '../snake-case.ts'

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

export function printJson(value: unknown): string {
  return `${tame(JSON.stringify(toWire(value), null, 2))}\n`
}

/** On one line, for something that prints many of them. */
export function printJsonLine(value: unknown): string {
  return `${tame(JSON.stringify(toWire(value)))}\n`
}

/** One of many in a document that is written part by part. */
export function printItem(value: unknown): string {
  return `\n    ${tame(JSON.stringify(toWire(value), null, 2)).replaceAll('\n', '\n    ')}`
}

/** What JSON lets through and a terminal would obey, in the way that JSON has for it. */
function tame(text: string): string {
  return text.replace(
    /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
