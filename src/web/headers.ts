import type { MiddlewareHandler } from 'hono'
import type { WebEnv } from './routes.ts'
import type { Visit } from './visit.ts'

/** Nothing from anywhere else, and nothing inline: what a sandbox prints cannot become a script, wherever it is shown. */
const OUR_PAGES = policy({
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': "'self'",
  'img-src': "'self' data:",
  'connect-src': "'self'",
  'form-action': "'self'",
  'frame-ancestors': "'none'",
  'base-uri': "'none'",
})

/** Bull Board writes styles into its elements, and says by a base where it is mounted. Its scripts are files, as ours are. */
export const BULL_BOARD = policy({
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': "'self' 'unsafe-inline'",
  'img-src': "'self' data:",
  'font-src': "'self'",
  'connect-src': "'self'",
  'form-action': "'self'",
  'frame-ancestors': "'none'",
  'base-uri': "'self'",
})

const HSTS_SECONDS = 180 * 86_400

const ALWAYS = {
  'x-content-type-options': 'nosniff',
  // Not `no-referrer`: with that, a form would no longer say that it comes from here.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'DENY',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}

/** On every answer. A route may bring a policy of its own, and say that it can be kept; all else is data, and is not. */
export function secureHeaders(visit: Visit): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    await next()
    const { headers } = c.res
    for (const [name, value] of Object.entries(ALWAYS)) c.header(name, value)
    if (!headers.has('content-security-policy')) c.header('content-security-policy', OUR_PAGES)
    if (!headers.has('cache-control')) c.header('cache-control', 'no-store')
    if (visit.isSecure(c)) c.header('strict-transport-security', `max-age=${HSTS_SECONDS}`)
  }
}

function policy(directives: Record<string, string>): string {
  return Object.entries(directives)
    .map(([name, sources]) => `${name} ${sources}`)
    .join('; ')
}
