import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../../errors.ts'
import { BackendError, type Call } from '../backend.ts'

/** What the system says when there is no room, for bytes or for files. */
const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** Not Node's own, which begin with ERR_ and complain about us. */
const SYSTEM_ERROR = /^E(?!RR_)[A-Z0-9]+$/

/** What every method of this backend does around its work: it can be given up, and fails as the contract says. */
export async function answer<T>(what: string, { signal }: Call, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  try {
    return await work()
  } catch (error) {
    throw asPromised(what, signal, error)
  }
}

/** The same for an answer that comes in pieces. */
export async function* answerInPieces<T>(what: string, { signal }: Call, work: () => AsyncIterable<T>) {
  signal.throwIfAborted()
  try {
    yield* work()
  } catch (error) {
    throw asPromised(what, signal, error)
  }
}

function asPromised(what: string, signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof BackendError) return error
  const { code = '' } = error as NodeJS.ErrnoException
  if (!SYSTEM_ERROR.test(code)) return error // a bug
  const type = FULL.has(code) ? 'quota_exceeded' : 'sandbox_unreachable'
  return new BackendError(type, `This machine did not let Sandman ${what}: ${describeError(error)}`, { cause: error })
}

/** Sleeps, or fails with the reason for which the call was given up. */
export async function wait(ms: number, { signal }: Call): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {})
  signal.throwIfAborted()
}

/** Waits for something, or fails with the reason for which the call was given up. */
export async function unlessGivenUp<T>(something: Promise<T>, { signal }: Call): Promise<T> {
  signal.throwIfAborted()
  const { promise: isGivenUp, reject } = Promise.withResolvers<never>()
  const giveUp = () => reject(signal.reason)
  signal.addEventListener('abort', giveUp)
  return Promise.race([something, isGivenUp]).finally(() => signal.removeEventListener('abort', giveUp))
}

/** Looks again and again until it is so; false when it is not within this time. */
export async function within(ms: number, call: Call, isSo: () => Promise<boolean>): Promise<boolean> {
  const until = Date.now() + ms
  for (;;) {
    if (await isSo()) return true
    if (Date.now() > until) return false
    await wait(POLL_MS, call)
  }
}

const POLL_MS = 10

/** For work that nobody gives up, because half of it would be worse than all of it. */
export const UNSTOPPABLE: Call = { signal: new AbortController().signal }
