import { STATUS_CODES } from 'node:http'
import type { Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'

/** An error on the wire (RFC 9457), with the words that a program can switch on. */
export function problem(
  c: Context,
  status: ContentfulStatusCode,
  { errorType, message, retryable = false }: { errorType: string; message: string; retryable?: boolean },
): Response {
  const body = {
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    request_id: c.get('requestId'),
    detail: message,
    error_type: errorType,
    message,
    retryable,
  }
  return c.body(JSON.stringify(body), status, { 'content-type': 'application/problem+json' })
}
