import type { Context, Hono } from 'hono'
import type { Scope } from '../config.ts'
import { type AccessVariables, needs } from './access.ts'

export type WebEnv = { Variables: AccessVariables }
export type WebApp = Hono<WebEnv>
export type WebContext = Context<WebEnv>

/** Who may ask for something: whoever has a token of this scope or a higher one, or really anybody. */
export type Need = Scope | 'anybody'
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Handle = (c: WebContext) => Response | Promise<Response>

/** The only way to add a route: it cannot be left open who may use it. Anybody's routes are added before access is asked for. */
export class Routes {
  readonly app: WebApp
  readonly all: { method: Method; path: string; need: Need }[] = []

  constructor(app: WebApp) {
    this.app = app
  }

  add(method: Method, path: string, need: Need, handle: Handle): void {
    this.all.push({ method, path, need })
    if (need === 'anybody') this.app.on(method, path, handle)
    else this.app.on(method, path, needs(need), handle)
  }
}
