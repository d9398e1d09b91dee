import type { MiddlewareHandler } from 'hono'
import { problem } from './problem.ts'
import type { WebContext, WebEnv } from './routes.ts'

/** The largest body that anybody may send, with or without saying how long it is. */
export const BODY_BYTES_MAX = 4 * 1024 * 1024

/**
 * Hono's own limit makes a new request around the stream of the old one, which Node refuses when the request is not of its own
 * class: then whoever sends no length, as `curl -X POST` does, would be answered with 500. Here such a body is read at once,
 * which is bounded, and handed on whole.
 */
export const limitBody: MiddlewareHandler<WebEnv> = async (c, next) => {
  const { raw } = c.req
  if (raw.method === 'GET' || raw.method === 'HEAD') return next()
  const length = c.req.header('content-length')
  if (length !== undefined && c.req.header('transfer-encoding') === undefined)
    return Number(length) <= BODY_BYTES_MAX ? next() : tooLarge(c)
  if (!raw.body) return next()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of raw.body) {
    size += chunk.byteLength
    if (size > BODY_BYTES_MAX) return tooLarge(c)
    chunks.push(chunk)
  }
  const { url, method, headers, signal } = raw
  c.req.raw = new Request(url, { method, headers, signal, ...(size > 0 && { body: Buffer.concat(chunks) }) })
  return next()
}

function tooLarge(c: WebContext): Response {
  return problem(c, 413, {
    errorType: 'body_too_large',
    message: `A body may have ${BODY_BYTES_MAX} bytes at most.`,
  })
}
