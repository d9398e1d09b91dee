import { describeError } from '../../errors.ts'
import { answering } from '../answer.ts'
import { BackendError, type BackendErrorType } from '../backend.ts'

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

export const { answer, answerInPieces } = answering((what, error) => {
  const type = typeOf(error)
  return type && new BackendError(type, `E2B did not ${what}: ${describeError(error)}`, { cause: error })
})
