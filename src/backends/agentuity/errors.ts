import { describeError } from '../../errors.ts'
import { answering } from '../answer.ts'
import { BackendError, type BackendErrorType } from '../backend.ts'

/** Agentuity, or somebody on the way to it, has answered, and has not done what was asked. */
export class Refusal extends Error {
  readonly status: number
  readonly text: string

  constructor(status: number, text: string) {
    super(`${status} ${text.trim().slice(0, SHOWN_CHARS)}`.trim())
    this.name = 'Refusal'
    this.status = status
    this.text = text
  }

  /**
   * Whether it is in Agentuity's own words. Where those could not be read, the words are the SDK's, which always name the status
   * like this.
   */
  get isOwn(): boolean {
    return this.text !== '' && !this.text.includes(`(HTTP ${this.status})`)
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

export function isRefusal(error: unknown, ...statuses: number[]): error is Refusal {
  return error instanceof Refusal && statuses.includes(error.status)
}

type Tagged = Error & { _tag?: unknown; status?: unknown; issues?: { path: unknown[]; message: string }[] }

/** By their tags, which stay the same when a package is there twice. */
const STATUS_BY_TAG: Record<string, number> = {
  SandboxNotFoundError: 404,
  SnapshotNotFoundError: 404,
  ExecutionNotFoundError: 404,
  SandboxTerminatedError: 410,
  SandboxBusyError: 409,
  PaymentRequiredError: 402,
  UpgradeRequiredError: 426,
}

/** What the SDK throws, as one of the two, or as what was wrong with the question. */
export function translate(error: unknown): Refusal | Unanswered | BackendError {
  const { _tag: tag, status, message, issues = [] } = error instanceof Error ? (error as Tagged) : ({} as Tagged)
  if (tag === 'APIErrorResponse' && typeof status === 'number')
    // The SDK says 503 of every connection that failed, and 0 of one that was given up.
    return status === 0 || status === 503 ? new Unanswered(error) : new Refusal(status, message)
  if (typeof tag === 'string' && tag in STATUS_BY_TAG) return new Refusal(STATUS_BY_TAG[tag] as number, message)
  if (tag === 'SandboxResponseError') return new Refusal(200, message)
  const what = issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ')
  if (tag === 'ValidationInputError')
    return new BackendError('spec_invalid', `Agentuity cannot be asked for this: ${what}`)
  if (tag === 'ValidationOutputError') return new Unanswered(new Error(`an answer that cannot be read (${what})`))
  return new Unanswered(error)
}

function typeOf(error: unknown): BackendErrorType | undefined {
  if (error instanceof Unanswered) return 'sandbox_unreachable'
  if (!(error instanceof Refusal)) return undefined
  const { status, isOwn } = error
  if (status === 401 || status === 403 || status === 426) return 'provider_unauthorized'
  if (status === 402) return 'quota_exceeded'
  if (status === 429) return 'rate_limited'
  return status === 400 && isOwn ? 'spec_invalid' : 'sandbox_unreachable'
}

export const { answer, answerInPieces } = answering((what, error) => {
  const type = typeOf(error)
  return type && new BackendError(type, `Agentuity did not ${what}: ${describeError(error)}`, { cause: error })
})
