import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import type { KnownToken, KnownTokens } from './tokens.ts'
import type { Visit } from './visit.ts'

/** How long a browser stays logged in. */
export const SESSION_MS = 12 * 3_600_000

/**
 * A browser's session: the name of the token that was shown at the login and when it ends, signed with a key that is derived
 * from that token. So nothing is stored, every web process of a deployment accepts it, a token that is removed or gets a new
 * secret takes its sessions along, and nobody else's end with them.
 */
export class Sessions {
  readonly #tokens: KnownTokens
  readonly #visit: Visit
  /** Part of the signature and of the cookie's name: fleets may share a host, and even a token. */
  readonly #fleet: string
  readonly #basePath: string
  readonly #nowMs: () => number

  constructor(
    tokens: KnownTokens,
    { visit, fleet, basePath, nowMs }: { visit: Visit; fleet: string; basePath: string; nowMs: () => number },
  ) {
    this.#tokens = tokens
    this.#visit = visit
    this.#fleet = fleet
    this.#basePath = basePath
    this.#nowMs = nowMs
  }

  begin(c: Context, token: KnownToken): void {
    const endsAt = this.#nowMs() + SESSION_MS
    const name = Buffer.from(token.name).toString('base64url')
    this.#set(c, `${name}.${endsAt}.${this.#sign(token, endsAt).toString('base64url')}`, SESSION_MS)
  }

  /** The token that this browser has logged in with, if that is still one. */
  of(c: Context): KnownToken | undefined {
    const [name = '', endsAt = '', signature = ''] = getCookie(c, this.#cookie(c))?.split('.') ?? []
    if (!/^\d{1,15}$/.test(endsAt) || Number(endsAt) <= this.#nowMs()) return undefined
    const presented = Buffer.from(signature, 'base64url')
    return this.#tokens.named(Buffer.from(name, 'base64url').toString()).find((token) => {
      const expected = this.#sign(token, Number(endsAt))
      return presented.length === expected.length && timingSafeEqual(presented, expected)
    })
  }

  end(c: Context): void {
    this.#set(c, '', 0)
  }

  #sign({ name, sessionKey }: KnownToken, endsAt: number): Buffer {
    return createHmac('sha256', sessionKey)
      .update(JSON.stringify([this.#fleet, name, endsAt]))
      .digest()
  }

  /**
   * Lax and not Strict, because people follow links to a sandbox from a chat or an alert; nothing is changed by following one,
   * and whatever changes something has to come from our own pages.
   */
  #set(c: Context, value: string, maxAgeMs: number): void {
    setCookie(c, this.#cookie(c), value, {
      path: this.#basePath || '/',
      httpOnly: true,
      sameSite: 'Lax',
      secure: this.#visit.isSecure(c),
      maxAge: maxAgeMs / 1_000,
    })
  }

  /** The prefixes keep others on the same domain from planting a cookie of this name. `__Host-` is only for the root. */
  #cookie(c: Context): string {
    const prefix = this.#visit.isSecure(c) ? (this.#basePath === '' ? '__Host-' : '__Secure-') : ''
    return `${prefix}sandman-${this.#fleet}`
  }
}
