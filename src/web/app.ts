import { Hono } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import { getPath } from 'hono/utils/url'
import type { Token } from '../config.ts'
import { isSandmanError } from '../errors.ts'
import { Events } from '../events.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { grantAccess } from './access.ts'
import { serveApi } from './api/routes.ts'
import { serveBoard } from './board.ts'
import { serveConsole } from './console/routes.ts'
import { serveHealth } from './health.ts'
import { problem } from './problem.ts'
import { Routes, type WebApp, type WebEnv } from './routes.ts'

export type AppOptions = {
  /** Who may call. Without any, only this machine may. */
  tokens?: Token[]
  /** Where it is mounted, such as `/sandman`. Defaults to the root. */
  basePath?: string
  /** Told when a request fails here, and not by its own fault. */
  events?: Events
}

/** The API, the console and Bull Board of a fleet, as a fetch handler that any server can mount. */
export function createApp(fleet: Fleet, options: AppOptions = {}): WebApp {
  const { tokens = [], basePath = '', events = new Events() } = options
  const app = new Hono<WebEnv>({ getPath: (request) => withoutBase(getPath(request), basePath) })
  const routes = new Routes(app)
  app.use(secureHeaders())
  serveHealth(routes, fleet)

  app.use(grantAccess(tokens))
  serveApi(routes, fleet)
  serveConsole(routes, fleet)
  serveBoard(routes, fleet)

  app.notFound((c) =>
    problem(c, 404, { errorType: 'not_found', message: `There is nothing at ${c.req.method} ${c.req.path}.` }),
  )
  app.onError((error, c) => {
    if (isSandmanError(error, 'queue_unreachable')) {
      c.header('retry-after', '5')
      return problem(c, 503, { errorType: error.code, message: error.message, retryable: true })
    }
    events.emit('request.failed', { method: c.req.method, path: c.req.path, error })
    return problem(c, 500, {
      errorType: 'internal',
      message: 'Something went wrong here; the log says what.',
      retryable: true,
    })
  })
  return app
}

/** Some of what we are mounted in takes the base path away before it hands on a request, and some does not. */
function withoutBase(path: string, basePath: string): string {
  if (basePath === '' || !path.startsWith(basePath)) return path
  const rest = path.slice(basePath.length)
  return rest === '' ? '/' : rest.startsWith('/') ? rest : path
}
