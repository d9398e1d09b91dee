import { randomUUID } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import type { Events } from '../events.ts'
import { withLogFields } from '../logger.ts'
import type { Routes, WebEnv } from './routes.ts'

/** What somebody else calls a request is taken over, if it can be written into a line without harm. */
const SANE = /^[\w.-]{1,128}$/

/** Gives every request an id, which is in its answer and in all that is logged because of it, and tells how it was answered. */
export function nameRequests(routes: Routes, events: Events): MiddlewareHandler<WebEnv> {
  return (c, next) => {
    const given = c.req.header('x-request-id') ?? ''
    const requestId = SANE.test(given) ? given : randomUUID()
    c.set('requestId', requestId)
    return withLogFields({ requestId }, async () => {
      const began = performance.now()
      await next()
      c.header('x-request-id', requestId)
      events.emit('request.answered', {
        method: c.req.method,
        route: routes.of(c)?.path,
        status: c.res.status,
        durationMs: Math.round(performance.now() - began),
        caller: c.get('caller')?.name,
      })
    })
  }
}
