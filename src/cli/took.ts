import { age } from '../fleet/words.ts'

/** How long something has taken, for a line that is read right after it. */
export function took(ms: number): string {
  return ms < 10_000 ? `${(Math.max(0, ms) / 1_000).toFixed(1)}s` : age(ms)
}
