import { STATUS_CODES } from 'node:http'
import type { Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { FieldProblem } from '../checked.ts'
import { isSandmanError } from '../errors.ts'
import { FAILURES, type FailureType } from '../sandbox/failures.ts'
import { ERROR_STATUSES, FAILURE_STATUSES, RETRY_AFTER_SECONDS } from './statuses.ts'

type Problem = {
  errorType: string
  message: string
  retryable?: boolean
  checkpointId?: string | undefined
  /** As it is on the wire. */
  operation?: unknown
  errors?: FieldProblem[] | undefined
}

/** An error on the wire (RFC 9457), with the words that a program can switch on. */
export function problemBody(status: ContentfulStatusCode, told: Problem, requestId?: string) {
  const { errorType, message, retryable = false, checkpointId, operation, errors } = told
  return {
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    ...(requestId !== undefined && { request_id: requestId }),
    detail: message,
    error_type: errorType,
    message,
    retryable,
    ...(checkpointId !== undefined && { checkpoint_id: checkpointId }),
    ...(operation !== undefined && { operation }),
    ...(errors !== undefined && { errors }),
  }
}

export function problem(c: Context, status: ContentfulStatusCode, told: Problem): Response {
  if (status === 429 || status === 503) c.header('retry-after', String(RETRY_AFTER_SECONDS))
  const body = JSON.stringify(problemBody(status, told, c.get('requestId')))
  return c.body(body, status, { 'content-type': 'application/problem+json' })
}

/** What is wrong with a request, before anybody was asked for anything. */
export class RequestProblem extends Error {
  readonly status: ContentfulStatusCode
  readonly errorType: string
  readonly errors: FieldProblem[] | undefined

  constructor(status: ContentfulStatusCode, errorType: string, message: string, errors?: FieldProblem[]) {
    super(message)
    this.status = status
    this.errorType = errorType
    this.errors = errors
  }
}

/** What was thrown, as a problem; undefined when it is a bug, and somebody should read about it in the log. */
export function explain(error: unknown): { status: ContentfulStatusCode; told: Problem } | undefined {
  if (error instanceof RequestProblem) return { status: error.status, told: error }
  if (!isSandmanError(error)) return undefined
  const { code, message, details } = error
  if (code === 'execution_refused') {
    const errorType = details.errorType as FailureType
    const { retryable } = FAILURES[errorType]
    return { status: FAILURE_STATUSES[errorType], told: { errorType, message, retryable } }
  }
  const status = ERROR_STATUSES[code]
  if (status === 500) return undefined
  const errors = code === 'backend_unknown' ? [{ field: 'backend', message }] : (details.problems as FieldProblem[])
  const told = { errorType: code, message, retryable: status === 503, ...(status === 422 && { errors }) }
  return { status, told }
}
