import { Hono } from 'hono'
import { getPath } from 'hono/utils/url'
import { RATE_LIMIT } from '../config.ts'
import type { Rate, Token } from '../config-values.ts'
import { SandmanError } from '../errors.ts'
import { Events } from '../events.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { Access, type AppAccess, nothingThere } from './access.ts'
import { serveApi } from './api/routes.ts'
import { serveBoard } from './board.ts'
import { limitBody } from './body-limit.ts'
import { tellPeople } from './console/for-people.ts'
import { serveConsole } from './console/routes.ts'
import { secureHeaders } from './headers.ts'
import { serveHealth } from './health.ts'
import { serveLogin } from './login.ts'
import { serveMetrics } from './metrics.ts'
import { explain, problem } from './problem.ts'
import { Buckets } from './rate-limit.ts'
import { nameRequests } from './request-id.ts'
import { Routes, type WebApp, type WebContext, type WebEnv, withoutBase } from './routes.ts'
import { Sessions } from './session.ts'
import { endStreams } from './stopping.ts'
import { limitTime } from './time-limit.ts'
import { KnownTokens } from './tokens.ts'
import { traceRequests } from './tracing.ts'
import { Visit } from './visit.ts'

export type AppOptions = {
  /** Who may call. Without any, and without `access`, only this machine may. */
  tokens?: Token[]
  /** Lets an app that mounts this one use its own login: the scope of whoever sends a request, if they may come in. */
  access?: AppAccess
  /** Where it is mounted, such as `/sandman`. Defaults to the root. */
  basePath?: string
  /** How often a token may ask, in each process. Defaults to 200 a second. */
  rateLimit?: Rate | 'off'
  /** How often an address may be wrong about a token. Defaults to 20 a minute. */
  wrongTokens?: Rate | 'off'
  /** How many proxies are in front, whose `X-Forwarded-…` headers are believed. Defaults to none. */
  proxies?: number
  /** Told of every request, and when one fails here and not by its own fault. */
  events?: Events
  /** Aborted when the process is about to stop: streams end then. */
  stopping?: AbortSignal
  /** What time it is, in milliseconds. */
  nowMs?: () => number
  /** How long a handler may take to begin its answer. */
  answerMs?: number
}

const WRONG_TOKENS: Rate = { count: 20, perMs: 60_000 }

/** The API, the console and Bull Board of a fleet, as a fetch handler that any server can mount. */
export function createApp(fleet: Fleet, options: AppOptions = {}): WebApp {
  return buildApp(fleet, options).app
}

/** With the list of its routes, and of who may use them. */
export function buildApp(fleet: Fleet, options: AppOptions = {}): { app: WebApp; routes: Routes } {
  const { basePath = '', rateLimit = RATE_LIMIT, wrongTokens = WRONG_TOKENS } = options
  const { events = new Events(), nowMs = Date.now } = options
  if (!/^(\/[\w.~-]+)*$/.test(basePath))
    throw new SandmanError('request_invalid', `basePath: ${JSON.stringify(basePath)} must be such as "/sandman".`)
  const app = new Hono<WebEnv>({ getPath: (request) => withoutBase(getPath(request), basePath) })
  const routes = new Routes(app, { basePath })
  const tokens = new KnownTokens(options.tokens ?? [])
  const visit = new Visit({ proxies: options.proxies ?? 0 })
  const sessions = new Sessions(tokens, { visit, fleet: fleet.name, basePath, nowMs })
  const access = new Access({
    routes,
    tokens,
    sessions,
    visit,
    access: options.access,
    perToken: rateLimit === 'off' ? undefined : new Buckets(rateLimit, { nowMs }),
    mistakes: wrongTokens === 'off' ? undefined : new Buckets(wrongTokens, { nowMs }),
  })

  app.use((c, next) => {
    c.set('basePath', basePath)
    return next()
  })
  app.use(nameRequests(routes, events))
  app.use(traceRequests(routes))
  app.use(secureHeaders(visit))
  app.use(endStreams(options.stopping ?? new AbortController().signal))
  app.use(tellPeople(fleet))
  app.use(limitTime(routes, options.answerMs))
  app.use(access.guard)
  app.use(limitBody)

  serveHealth(routes, fleet)
  serveLogin(routes, { access, sessions, tokens, visit })
  serveApi(routes, fleet)
  serveConsole(routes, fleet)
  serveBoard(routes, fleet)
  serveMetrics(routes, fleet)

  app.notFound(nothingThere)
  app.onError((error, c) => answerError(error, c, events))
  return { app, routes }
}

function answerError(error: Error, c: WebContext, events: Events): Response {
  const explained = explain(error)
  if (explained) return problem(c, explained.status, explained.told)
  events.emit('request.failed', { method: c.req.method, path: c.req.path, error })
  return problem(c, 500, {
    errorType: 'internal',
    message: 'Something went wrong here; the log says what.',
    retryable: true,
  })
}
