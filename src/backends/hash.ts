import { createHash } from 'node:crypto'

/** The beginning of a text's hash, in letters that every name may have. */
export function hash(text: string, chars = 12): string {
  return createHash('sha256').update(text).digest('hex').slice(0, chars)
}
