import { BackendError, type Call } from './backend.ts'

/**
 * What every method of a backend does around its work: it can be given up, and fails as the contract says. `explain` turns what a
 * provider, or the way to it, has thrown into a `BackendError`; what it does not know is a bug, and stays what it is.
 */
export function answering(explain: (what: string, error: unknown) => BackendError | undefined) {
  const asPromised = (what: string, signal: AbortSignal, error: unknown): unknown => {
    if (signal.aborted) return signal.reason
    return error instanceof BackendError ? error : (explain(what, error) ?? error)
  }
  return {
    async answer<T>(what: string, { signal }: Call, work: () => Promise<T>): Promise<T> {
      signal.throwIfAborted()
      try {
        return await work()
      } catch (error) {
        throw asPromised(what, signal, error)
      }
    },

    /** The same for an answer that comes in pieces. */
    async *answerInPieces<T>(what: string, { signal }: Call, work: () => AsyncIterable<T>) {
      signal.throwIfAborted()
      try {
        yield* work()
      } catch (error) {
        throw asPromised(what, signal, error)
      }
    },
  }
}

/**
 * How long a request may take that a provider takes its time for, where whoever sends it has to say so. As long as the jobs wait for
 * the slowest of their calls (`jobs/patience.ts`): who has asked is the one who gives up.
 */
export const SLOW_MS = 300_000

/** Waits for something, or fails with the reason for which the call was given up: not everything ends by its signal. */
export async function unlessGivenUp<T>(something: Promise<T>, { signal }: Call): Promise<T> {
  const { promise: isGivenUp, reject } = Promise.withResolvers<never>()
  const giveUp = () => reject(signal.reason)
  signal.addEventListener('abort', giveUp)
  if (signal.aborted) giveUp()
  return Promise.race([something, isGivenUp]).finally(() => signal.removeEventListener('abort', giveUp))
}
