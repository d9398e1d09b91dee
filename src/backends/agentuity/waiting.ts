import { setTimeout as sleep } from 'node:timers/promises'
import type { Call } from '../backend.ts'

/** Between two looks at something that is on its way. Doubles up to the second number. */
const POLL_MS = [50, 1_000] as const

/** Ends with the call, and fails then with its reason. */
export async function nap(ms: number, { signal }: Call): Promise<void> {
  await sleep(ms, undefined, { signal }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw error
  })
}

/** Looks until it is as it should be, but no longer than this, and returns what was seen last. */
export async function lookUntil<T>(
  withinMs: number,
  call: Call,
  look: () => Promise<T>,
  isEnough: (seen: T) => boolean,
): Promise<T> {
  const until = performance.now() + withinMs
  for (let ms: number = POLL_MS[0]; ; ms = Math.min(ms * 2, POLL_MS[1])) {
    const seen = await look()
    if (isEnough(seen) || performance.now() + ms > until) return seen
    await nap(ms, call)
  }
}
