import { Refusal } from './errors.ts'

const HOUR_MS = 3_600_000

/** What E2B lets accounts have, of one kind and of another. */
const MAXIMA_MS = [24 * HOUR_MS, HOUR_MS]

/** How it says that something was too long, with the maximum, or without. */
const TOO_LONG = /max instance length exceeded|timeout cannot be greater than(?: ([\d.]+) hours?)?/i

/**
 * Asks with a time-to-live in seconds, and with less when that is more than the account may have. Undefined when even the least
 * is refused: it has lived for as long as it may since it was started.
 */
export async function withTtl<T>(ttlMs: number, ask: (seconds: number) => Promise<T>): Promise<T | undefined> {
  let ms: number | undefined = ttlMs
  while (ms !== undefined) {
    try {
      return await ask(Math.max(1, Math.ceil(ms / 1_000)))
    } catch (error) {
      const refused: RegExpMatchArray | null =
        error instanceof Refusal && error.is(400) ? error.text.match(TOO_LONG) : null
      if (!refused) throw error
      const tried: number = ms
      ms = [Number(refused[1]) * HOUR_MS, ...MAXIMA_MS].find((max) => max > 0 && max < tried)
    }
  }
  return undefined
}
