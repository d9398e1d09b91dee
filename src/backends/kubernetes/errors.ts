import { describeError } from '../../errors.ts'
import { answering } from '../answer.ts'
import { BackendError, type BackendErrorType } from '../backend.ts'

const SHOWN_CHARS = 400

/** How an API server says that it will not: every refusal of its own is such an object. */
type Status = {
  kind: 'Status'
  reason?: string
  message?: string
  details?: { name?: string; kind?: string }
}

/** The API server, or somebody on the way to it, has answered, and has not done what was asked. */
export class Refusal extends Error {
  readonly status: number
  /** Undefined where it was not said as the API server says things: a gateway, or a path that is not served. */
  readonly own: Status | undefined
  readonly text: string

  constructor(asked: string, status: number, body: string) {
    const own = statusIn(body)
    const text = own?.message ?? body.trim().slice(0, SHOWN_CHARS)
    super(`${asked} was answered with ${status}: ${text}`)
    this.name = 'Refusal'
    this.status = status
    this.own = own
    this.text = text
  }

  says(status: number, reason: string): boolean {
    return this.status === status && this.own?.reason === reason
  }
}

/** It was said to be well, and cannot be read: a page of somebody else. */
export class Unreadable extends Error {
  constructor(asked: string, text: string) {
    super(`the answer to ${asked} is not that of an API server: ${text.trim().slice(0, SHOWN_CHARS)}`)
    this.name = 'Unreadable'
  }
}

export function says(error: unknown, status: number, reason: string): error is Refusal {
  return error instanceof Refusal && error.says(status, reason)
}

/**
 * That there is no such thing counts only when the API server says it of that very object. A version that is not served is
 * answered with a 404 in plain text, for every object alike.
 */
export function isAbsent(error: unknown, name: string): boolean {
  return says(error, 404, 'NotFound') && error.own?.details?.name === name
}

/** It is not any more what it was when it was looked at: it has been changed, or is another one of the same name. */
export function isConflict(error: unknown): boolean {
  return says(error, 409, 'Conflict')
}

/** A list, or a watch, can go on from a moment for some minutes only. */
export function isTooOld(error: unknown): boolean {
  return error instanceof Refusal && error.status === 410
}

function statusIn(body: string): Status | undefined {
  try {
    const value = JSON.parse(body) as Status | null
    return value?.kind === 'Status' ? value : undefined
  } catch {
    return undefined
  }
}

/** Not Node's own, which begin with ERR_ and complain about us; but for those that say that a connection was cut. */
const SYSTEM_ERROR =
  /^(E(?!RR_)[A-Z0-9_]+|ERR_STREAM_PREMATURE_CLOSE|ERR_TLS_\w+|ERR_SSL_\w+|HPE_\w+|CERT_\w+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/

/** In the words of those who admit objects. All of them say 403, as to somebody who may not. */
const QUOTA = /exceeded quota:/
const NOT_ADMITTED = /violates PodSecurity|(maximum|minimum) \S+ usage per|admission webhook .* denied/
/** What is asked for is wrong, and would be the next time. */
const WRONG: readonly [status: number, reason: string][] = [
  [400, 'BadRequest'],
  [413, 'RequestEntityTooLarge'],
  [422, 'Invalid'],
]

function typeOf(error: unknown): BackendErrorType | undefined {
  if (error instanceof Unreadable) return 'sandbox_unreachable'
  if (!(error instanceof Refusal))
    return SYSTEM_ERROR.test((error as NodeJS.ErrnoException).code ?? '') ? 'sandbox_unreachable' : undefined
  if (error.status === 403 && QUOTA.test(error.text)) return 'quota_exceeded'
  if (error.status === 403 && NOT_ADMITTED.test(error.text)) return 'spec_invalid'
  if (error.status === 401 || error.status === 403) return 'provider_unauthorized'
  if (error.status === 429) return 'rate_limited'
  return WRONG.some(([status, reason]) => error.says(status, reason)) ? 'spec_invalid' : 'sandbox_unreachable'
}

export const { answer, answerInPieces } = answering((what, error) => {
  const type = typeOf(error)
  return type && new BackendError(type, `Kubernetes did not ${what}: ${describeError(error)}`, { cause: error })
})
