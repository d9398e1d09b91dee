import { harmless } from './harmless.ts'

/** As it can be read, and as it can be typed again where it is text. */
export function printMetadata(metadata: Record<string, unknown>): string {
  return Object.entries(metadata)
    .map(([key, value]) => `${harmless(key)}=${harmless(typeof value === 'string' ? value : JSON.stringify(value))}`)
    .join(' ')
}

/** `key=value`, as often as it was given. A later one replaces an earlier one. */
export function readPairs(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}
