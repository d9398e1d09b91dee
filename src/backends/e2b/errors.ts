import { describeError } from '../../errors.ts'
import { BackendError, type BackendErrorType, type Call } from '../backend.ts'

/** E2B, or somebody on the way to it, has answered, and has not done what was asked. */
export class Refusal extends Error {
  readonly status: number
  /** From E2B itself: it repeats the status in what it says. A gateway does not know that. */
  readonly isOwn: boolean
  readonly text: string

  constructor(status: number, body: unknown) {
    const { code, message } = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
    const text = typeof message === 'string' ? message : typeof body === 'string' ? body : ''
    super(`${status} ${text.trim().slice(0, SHOWN_CHARS)}`.trim())
    this.name = 'Refusal'
    this.status = status
    this.isOwn = code === status
    this.text = text
  }

  is(status: number): boolean {
    return this.status === status && this.isOwn
  }
}

/** There was no answer, or none that could be read: nobody knows what has become of what was asked. */
export class Unanswered extends Error {
  constructor(cause: unknown) {
    super(describeError(cause), { cause })
    this.name = 'Unanswered'
  }
}

const SHOWN_CHARS = 400

export function isRefusal(error: unknown, status: number): error is Refusal {
  return error instanceof Refusal && error.is(status)
}

function typeOfRefusal({ status, isOwn, text }: Refusal): BackendErrorType {
  if (status === 401 || status === 403) return 'provider_unauthorized'
  if (status === 429) return /maximum number of concurrent/i.test(text) ? 'quota_exceeded' : 'rate_limited'
  return status === 400 && isOwn ? 'spec_invalid' : 'sandbox_unreachable'
}

/** By the names of the SDK's classes, of which not all have a common parent. All others say only that it did not work. */
const TYPES_BY_NAME: Record<string, BackendErrorType> = {
  AuthenticationError: 'provider_unauthorized',
  RateLimitError: 'rate_limited',
  NotEnoughSpaceError: 'quota_exceeded',
}

function typeOf(error: unknown): BackendErrorType | undefined {
  if (error instanceof Refusal) return typeOfRefusal(error)
  if (!(error instanceof Unanswered)) return undefined
  return TYPES_BY_NAME[(error.cause as Error | undefined)?.name ?? ''] ?? 'sandbox_unreachable'
}

function asPromised(what: string, signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof BackendError) return error
  const type = typeOf(error)
  if (type === undefined) return error // a bug
  return new BackendError(type, `E2B did not ${what}: ${describeError(error)}`, { cause: error })
}

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

/** Waits for something, or fails with the reason for which the call was given up: not everything ends by its signal. */
export async function unlessGivenUp<T>(something: Promise<T>, { signal }: Call): Promise<T> {
  const { promise: isGivenUp, reject } = Promise.withResolvers<never>()
  const giveUp = () => reject(signal.reason)
  signal.addEventListener('abort', giveUp)
  if (signal.aborted) giveUp()
  something.catch(() => {}) // nobody may be waiting any more
  return Promise.race([something, isGivenUp]).finally(() => signal.removeEventListener('abort', giveUp))
}
