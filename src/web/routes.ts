import type { Context, Hono } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { Scope } from '../config-values.ts'

/** Who asks, and how that is known: by a token, a browser's session, the app that we are mounted in, or being on this machine. */
export type Caller = { name: string; scope: Scope; by: 'token' | 'session' | 'app' | 'machine' }

/** What every handler is told of its request. */
type WebVariables = {
  /** Of the caller; on a route for anybody, nobody is asked who they are. */
  caller: Caller | undefined
  scope: Scope
  /** Also in the answer, in a problem and in every log line of the request. */
  requestId: string
  /** What every link to ourselves begins with: empty, or such as `/sandman`. */
  basePath: string
}

export type WebEnv = { Variables: WebVariables }
export type WebApp = Hono<WebEnv>
export type WebContext = Context<WebEnv>

/** Who may ask for something: whoever has a token of this scope or a higher one, or really anybody. */
export type Need = Scope | 'anybody'
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'
type Handle = (c: WebContext) => Response | Promise<Response>

export type Route = {
  method: Method
  path: string
  need: Need
  /** How long its handler may take, besides what the caller is willing to `wait`. */
  withinMs?: number
}

/** The only way to add a route: it cannot be left open who may use it, and what was added in another way is not answered. */
export class Routes {
  readonly app: WebApp
  readonly basePath: string
  readonly #routes = new Map<string, Route>()

  constructor(app: WebApp, { basePath = '' }: { basePath?: string } = {}) {
    this.app = app
    this.basePath = basePath
  }

  get all(): Route[] {
    return [...this.#routes.values()]
  }

  add(method: Method, path: string, need: Need, handle: Handle, options: { withinMs?: number } = {}): void {
    this.#routes.set(`${method} ${path}`, { method, path, need, ...options })
    this.app.on(method, path, handle)
  }

  /** The route that answers a request. */
  of(c: Context): Route | undefined {
    for (const { method, path } of matchedRoutes(c)) {
      const route = this.#routes.get(`${method} ${withoutBase(path, this.basePath)}`)
      if (route) return route
    }
    return undefined
  }
}

/** Some of what we are mounted in takes the base path away before it hands on a request, and some does not. */
export function withoutBase(path: string, basePath: string): string {
  if (basePath === '' || !path.startsWith(basePath)) return path
  const rest = path.slice(basePath.length)
  return rest === '' ? '/' : rest.startsWith('/') ? rest : path
}
