import { SpanKind } from '@opentelemetry/api'
import type { MiddlewareHandler } from 'hono'
import { inSpan, isTracing, tag, tagFailed } from '../tracing.ts'
import type { Routes, WebEnv } from './routes.ts'

/** Every request as a span, named by its route; as part of the caller's trace, if it says so (W3C `traceparent`). */
export function traceRequests(routes: Routes): MiddlewareHandler<WebEnv> {
  return (c, next) => {
    const route = routes.of(c)
    // Probes come every few seconds, and files are of no interest.
    if (!isTracing() || (route?.need === 'anybody' && route.method === 'GET')) return next()
    const { method } = c.req
    const path = route && `${routes.basePath}${route.path}`
    const attributes = {
      'http.request.method': method,
      ...(path !== undefined && { 'http.route': path }),
      'sandman.request_id': c.get('requestId'),
    }
    // What else a stranger wants to be passed on is not stored with our jobs.
    const { baggage: _, ...carrier } = c.req.header()
    const options = { kind: SpanKind.SERVER, attributes, carrier }
    return inSpan(path === undefined ? method : `${method} ${path}`, options, async () => {
      await next()
      const { status } = c.res
      tag({ 'http.response.status_code': status, 'sandman.caller': c.get('caller')?.name ?? '' })
      if (status >= 500) tagFailed(String(status))
    })
  }
}
