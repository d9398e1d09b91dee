import { describeError } from '../../errors.ts'
import { BackendError, type BackendErrorType, type Call } from '../backend.ts'

const SHOWN_CHARS = 400

/** The engine, or somebody on the way to it, has answered, and has not done what was asked. */
export class Refusal extends Error {
  readonly status: number
  readonly text: string
  /** Whether it was said as the engine says things. */
  readonly isOwn: boolean

  constructor(status: number, text: string, { asked, isOwn }: { asked: string; isOwn: boolean }) {
    super(`${asked} was answered with ${status}: ${text.trim().slice(0, SHOWN_CHARS)}`)
    this.name = 'Refusal'
    this.status = status
    this.text = text
    this.isOwn = isOwn
  }

  /** By its status and the engine's own words, which are not the same in every version, nor in Podman. */
  says(status: number | readonly number[], words: RegExp): boolean {
    return [status].flat().includes(this.status) && this.isOwn && words.test(this.text)
  }
}

/** It was said to be well, and cannot be read: a page of somebody else. */
export class Unreadable extends Error {
  constructor(path: string, text: string) {
    super(`the answer to ${path} is not the engine's: ${text.trim().slice(0, SHOWN_CHARS)}`)
    this.name = 'Unreadable'
  }
}

/** That there is no such thing counts only when the engine says it of that very thing: a gateway has 404s of its own. */
export function isAbsent(error: unknown, what: 'container' | 'image', name: string): boolean {
  return error instanceof Refusal && error.says(404, new RegExp(`no such ${what}`, 'i')) && error.text.includes(name)
}

export function says(error: unknown, status: number | readonly number[], words: RegExp): boolean {
  return error instanceof Refusal && error.says(status, words)
}

const FULL = /no space left on device|disk quota exceeded/i

/** Not Node's own, which begin with ERR_ and complain about us; but for one, which says that a stream was cut. */
const SYSTEM_ERROR = /^(E(?!RR_)[A-Z0-9_]+|ERR_STREAM_PREMATURE_CLOSE|HPE_[A-Z_]+)$/

function typeOf(error: unknown): BackendErrorType | undefined {
  if (error instanceof Unreadable) return 'sandbox_unreachable'
  if (!(error instanceof Refusal))
    return SYSTEM_ERROR.test((error as NodeJS.ErrnoException).code ?? '') ? 'sandbox_unreachable' : undefined
  if (error.status === 401 || error.status === 403) return 'provider_unauthorized'
  if (error.status === 429) return 'rate_limited'
  return FULL.test(error.text) ? 'quota_exceeded' : 'sandbox_unreachable'
}

function asPromised(what: string, signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof BackendError) return error
  const type = typeOf(error)
  if (type === undefined) return error // a bug
  return new BackendError(type, `The Docker engine did not ${what}: ${describeError(error)}`, { cause: error })
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
