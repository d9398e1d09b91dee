import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context, MiddlewareHandler } from 'hono'
import { isLoopback, type Scope, type Token } from '../config.ts'
import { problem } from './problem.ts'

/** What the middleware below tells the routes. */
export type AccessVariables = { scope: Scope }

const RANK: Record<Scope, number> = { read: 0, operate: 1, admin: 2 }

export function allows(granted: Scope, needed: Scope): boolean {
  return RANK[granted] >= RANK[needed]
}

/**
 * Lets in whoever has a token: as a bearer token, or as the password of a browser's login box. Without any tokens
 * configured the process listens on loopback only, and whoever is on this machine may do everything; a page on the web
 * that talks to this machine through somebody's browser may not, hence the look at Host and Origin.
 */
export function grantAccess(tokens: Token[]): MiddlewareHandler<{ Variables: AccessVariables }> {
  // Only hashes are kept, and they are compared whole, so that neither memory nor time gives a secret away.
  const known = tokens.map(({ scope, secret }) => ({ scope, hash: sha256(secret) }))
  return async (c, next) => {
    if (isCrossSite(c)) {
      return problem(c, 403, { errorType: 'cross_site', message: 'This request comes from another site.' })
    }
    if (known.length === 0) {
      if (!isLoopback(hostname(c))) {
        return problem(c, 403, {
          errorType: 'unknown_host',
          message: 'Without SANDMAN_TOKENS, Sandman answers to localhost and 127.0.0.1 only.',
        })
      }
      c.set('scope', 'admin')
      return next()
    }
    const presented = presentedSecret(c.req.header('authorization'))
    const scope = presented === undefined ? undefined : matchingScope(known, sha256(presented))
    if (!scope) {
      c.header('www-authenticate', 'Basic realm="Sandman", charset="UTF-8"')
      return problem(c, 401, {
        errorType: 'unauthorized',
        message: 'A token is needed: send it as "Authorization: Bearer <secret>", or as the password in a browser.',
      })
    }
    c.set('scope', scope)
    return next()
  }
}

/** Every route behind `grantAccess` names the scope that it needs. */
export function needs(scope: Scope): MiddlewareHandler<{ Variables: AccessVariables }> {
  return async (c, next) => {
    if (allows(c.get('scope'), scope)) return next()
    return problem(c, 403, {
      errorType: 'forbidden',
      message: `This needs a token with the scope ${scope}; yours has ${c.get('scope')}.`,
    })
  }
}

function presentedSecret(authorization: string | undefined): string | undefined {
  const [scheme = '', value = ''] = authorization?.split(' ') ?? []
  if (/^bearer$/i.test(scheme)) return value
  if (/^basic$/i.test(scheme))
    return Buffer.from(value, 'base64')
      .toString('utf8')
      .replace(/^[^:]*:/, '')
  return undefined
}

function matchingScope(known: { scope: Scope; hash: Buffer }[], hash: Buffer): Scope | undefined {
  let scope: Scope | undefined
  for (const candidate of known) if (timingSafeEqual(candidate.hash, hash)) scope = candidate.scope
  return scope
}

/** A request that only reads. */
export function isReading(c: Context): boolean {
  return c.req.method === 'GET' || c.req.method === 'HEAD'
}

/** A browser says where a request that changes something comes from; other clients say nothing, and carry a token on purpose. */
function isCrossSite(c: Context): boolean {
  if (isReading(c)) return false
  const site = c.req.header('sec-fetch-site')
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  const origin = c.req.header('origin')
  return origin !== undefined && origin.replace(/^https?:\/\//, '') !== c.req.header('host')
}

function hostname(c: Context): string {
  return (c.req.header('host') ?? '').replace(/:\d+$/, '')
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
