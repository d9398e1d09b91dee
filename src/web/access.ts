import type { Context, MiddlewareHandler } from 'hono'
import { isLoopback, type Scope } from '../config-values.ts'
import { loginPath } from './local-path.ts'
import { problem } from './problem.ts'
import { type Allowance, type Buckets, Lately } from './rate-limit.ts'
import type { Caller, Routes, WebContext, WebEnv } from './routes.ts'
import type { Sessions } from './session.ts'
import type { KnownToken, KnownTokens } from './tokens.ts'
import { UNKNOWN_ADDRESS, type Visit } from './visit.ts'

const RANK: Record<Scope, number> = { read: 0, operate: 1, admin: 2 }

export function allows(granted: Scope, needed: Scope): boolean {
  return RANK[granted] >= RANK[needed]
}

/** A request that only reads. */
function isReading(c: Context): boolean {
  return c.req.method === 'GET' || c.req.method === 'HEAD'
}

/** A browser that somebody looks at. Programs ask for something else, or for anything. */
export function isPerson(c: Context): boolean {
  return isReading(c) && c.req.header('accept')?.includes('text/html') === true
}

/** Lets the app that we are mounted in say who somebody is, by a login of its own. */
export type AppAccess = (request: Request) => Scope | undefined | Promise<Scope | undefined>

type AccessDeps = {
  routes: Routes
  tokens: KnownTokens
  sessions: Sessions
  visit: Visit
  access: AppAccess | undefined
  /** What a token may ask for. */
  perToken: Buckets | undefined
  /** How often somebody may be wrong about a token. */
  mistakes: Buckets | undefined
}

/** A browser sends these by itself, whoever's page makes it ask; only a bearer token is in a request on purpose. */
type Identified = { caller: Caller; isAmbient: boolean }

/**
 * Who may do what. Everybody passes here before any route: with a token as a bearer, with a browser's session, or by the word
 * of the app that we are mounted in. Without any of these only this machine is answered, and may do everything.
 */
export class Access {
  readonly #deps: AccessDeps
  /** Addresses with the tokens that were right there. */
  readonly #proven = new Lately()

  constructor(deps: AccessDeps) {
    this.#deps = deps
  }

  readonly guard: MiddlewareHandler<WebEnv> = async (c, next) => {
    const { routes, tokens, visit } = this.#deps
    // Whoever asks: a page on the web must not change anything through somebody's browser.
    if (!isReading(c) && visit.from(c) === 'elsewhere') return fromElsewhere(c)
    const route = routes.of(c)
    if (route?.need === 'anybody') return next()

    const identified = await this.#identify(c)
    if (!('caller' in identified)) return identified
    const { caller, isAmbient } = identified
    if (isAmbient && !isReading(c) && visit.from(c) !== 'here') return fromElsewhere(c)
    const refused = this.#limit(c, caller)
    if (refused) return refused
    // Only who is known is told, or anybody could try out tokens in addresses.
    if (carriesToken(c, tokens)) return tokenInAddress(c)
    c.set('caller', caller)
    c.set('scope', caller.scope)
    if (!route) return nothingThere(c)
    if (allows(caller.scope, route.need)) return next()
    return problem(c, 403, {
      errorType: 'forbidden',
      message: `This needs a token with the scope ${route.need}; yours has ${caller.scope}.`,
    })
  }

  /** Judges a secret that somebody presents, with the same patience wherever they do. */
  judge(c: Context, secret: string): KnownToken | { tryAgainMs: number } | undefined {
    const { tokens, visit, mistakes } = this.#deps
    const address = visit.address(c)
    const token = tokens.match(secret)
    // One program with a wrong token must not lock out those that came with a right one through the same proxy.
    const isProven =
      token !== undefined && (address === UNKNOWN_ADDRESS || this.#proven.has(`${address} ${token.name}`))
    const allowance = mistakes?.look(address)
    if (allowance && !allowance.isAllowed && !isProven) return { tryAgainMs: allowance.waitMs }
    if (token) this.#proven.add(`${address} ${token.name}`)
    else mistakes?.take(address)
    return token
  }

  async #identify(c: WebContext): Promise<Identified | Response> {
    const { tokens, sessions, access, visit } = this.#deps
    const presented = presentedSecret(c.req.header('authorization'))
    const granted = await access?.(c.req.raw)
    if (granted)
      return { caller: { name: 'app', scope: granted, by: 'app' }, isAmbient: presented?.scheme !== 'bearer' }
    if (tokens.all.length === 0) return access ? unauthorized(c) : onThisMachine(c, visit)
    if (presented) {
      const judged = this.judge(c, presented.secret)
      if (!judged) return unauthorized(c, 'invalid_token')
      if ('tryAgainMs' in judged)
        return tooMany(c, 'Too many wrong tokens came from this address; try again later.', judged.tryAgainMs)
      const { name, scope } = judged
      return { caller: { name, scope, by: 'token' }, isAmbient: presented.scheme === 'basic' }
    }
    const session = sessions.of(c)
    if (session) return { caller: { name: session.name, scope: session.scope, by: 'session' }, isAmbient: true }
    return isPerson(c) ? c.redirect(loginPath(c)) : unauthorized(c)
  }

  #limit(c: WebContext, { name, by }: Caller): Response | undefined {
    if (by !== 'token' && by !== 'session') return undefined
    const allowance = this.#deps.perToken?.take(name)
    if (!allowance) return undefined
    tellLimit(c, allowance)
    if (allowance.isAllowed) return undefined
    return tooMany(
      c,
      `The token ${name} asks more often than the ${allowance.limit} times that it may at once; slow down.`,
      allowance.waitMs,
    )
  }
}

/**
 * A bearer token, or the password of basic authentication, for programs that know no other way to send one. The name is never
 * looked at.
 */
function presentedSecret(
  authorization: string | undefined,
): { scheme: 'bearer' | 'basic'; secret: string } | undefined {
  const [, scheme = '', value = ''] = /^(bearer|basic) +(\S*) *$/i.exec(authorization ?? '') ?? []
  if (scheme === '') return undefined
  if (scheme.toLowerCase() === 'bearer') return { scheme: 'bearer', secret: value }
  const secret = Buffer.from(value, 'base64')
    .toString('utf8')
    .replace(/^[^:]*:/, '')
  return { scheme: 'basic', secret }
}

/** Addresses are kept in histories and in the logs of others. */
function carriesToken(c: Context, tokens: KnownTokens): boolean {
  if (tokens.all.length === 0) return false
  const { pathname, searchParams } = new URL(c.req.url)
  const parts = [...pathname.split('/').map(decoded), ...searchParams.keys(), ...searchParams.values()]
  return parts.some((part) => part !== '' && tokens.match(part) !== undefined)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Both by where the connection comes from and by the name that was asked for: a page on the web may know a name of its own for this machine. */
function onThisMachine(c: WebContext, visit: Visit): Identified | Response {
  const hostname = (c.req.header('host') ?? '').replace(/:\d+$/, '')
  if (isLoopback(hostname) && visit.isFromHere(c))
    return { caller: { name: 'local', scope: 'admin', by: 'machine' }, isAmbient: false }
  return problem(c, 403, {
    errorType: 'unknown_host',
    message:
      'Without tokens (SANDMAN_TOKENS), Sandman answers to this machine only: to localhost and 127.0.0.1, and not through a proxy.',
  })
}

function unauthorized(c: Context, error?: string): Response {
  c.header('www-authenticate', `Bearer realm="Sandman"${error ? `, error="${error}"` : ''}`)
  return problem(c, 401, {
    errorType: 'unauthorized',
    message: error
      ? 'There is no such token: send one of SANDMAN_TOKENS as "Authorization: Bearer <secret>".'
      : 'A token is needed: send it as "Authorization: Bearer <secret>".',
  })
}

export function fromElsewhere(c: Context): Response {
  return problem(c, 403, {
    errorType: 'cross_site',
    message: 'This request does not come from a page of this site. A program sends its token as a bearer.',
  })
}

function tokenInAddress(c: Context): Response {
  return problem(c, 400, {
    errorType: 'token_in_address',
    message:
      'The address has a token in it, and addresses are logged: give that token a new secret, and send it as a header.',
  })
}

function tooMany(c: Context, message: string, waitMs: number): Response {
  const answer = problem(c, 429, { errorType: 'too_many_requests', message, retryable: true })
  answer.headers.set('retry-after', wholeSeconds(waitMs))
  return answer
}

export function nothingThere(c: Context): Response {
  return problem(c, 404, { errorType: 'not_found', message: `There is nothing at ${c.req.method} ${c.req.path}.` })
}

function tellLimit(c: Context, { limit, remaining, waitMs }: Allowance): void {
  c.header('ratelimit-limit', String(limit))
  c.header('ratelimit-remaining', String(remaining))
  c.header('ratelimit-reset', wholeSeconds(waitMs))
}

export function wholeSeconds(ms: number): string {
  return String(Math.ceil(ms / 1_000))
}
