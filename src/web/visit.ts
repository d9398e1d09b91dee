import { isIPv6 } from 'node:net'
import type { Context } from 'hono'
import { isLoopback } from '../config-values.ts'

/** Of whoever is behind a server that does not say: nobody there can be told from another. */
export const UNKNOWN_ADDRESS = 'unknown'
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip']

/** What a request tells of the way it came. */
export class Visit {
  readonly #proxies: number

  /** How many proxies of our own are in front. Only what they have written is believed: anybody can send these headers. */
  constructor({ proxies }: { proxies: number }) {
    this.#proxies = proxies
  }

  isSecure(c: Context): boolean {
    return (this.#forwarded(c, 'x-forwarded-proto') ?? c.req.url.slice(0, 5)) === 'https'
  }

  /** Whether the connection was made on this machine, and by nobody who says that it speaks for another. */
  isFromHere(c: Context): boolean {
    const isForwarded = FORWARDED.some((name) => c.req.header(name) !== undefined)
    const address = peerOf(c)
    return !isForwarded && address !== undefined && isLoopback(address.replace(/^::ffff:/i, ''))
  }

  /** Where the caller is, as far as it matters to tell callers apart: of an IPv6 address the network that one customer gets. */
  address(c: Context): string {
    const address = this.#forwarded(c, 'x-forwarded-for') ?? peerOf(c) ?? UNKNOWN_ADDRESS
    const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
    if (mapped !== undefined) return mapped
    return isIPv6(address) ? networkOf(address) : address
  }

  /** The name that the caller knows us by. */
  host(c: Context): string {
    return this.#forwarded(c, 'x-forwarded-host') ?? c.req.header('host') ?? ''
  }

  /**
   * Where a browser says that a request comes from: from one of our own pages, or from somebody else's. Programs say nothing,
   * and neither does somebody who has typed an address.
   */
  from(c: Context): 'here' | 'elsewhere' | 'unsaid' {
    const site = c.req.header('sec-fetch-site')
    if (site === 'none') return 'unsaid'
    if (site !== undefined) return site === 'same-origin' ? 'here' : 'elsewhere'
    const origin = c.req.header('origin')
    if (origin === undefined) return 'unsaid'
    return origin.replace(/^https?:\/\//, '') === this.host(c) ? 'here' : 'elsewhere'
  }

  /** Each proxy writes at the end of the list what it has seen; what is in front of that was claimed by the caller. */
  #forwarded(c: Context, header: string): string | undefined {
    if (this.#proxies === 0) return undefined
    const written = c.req.header(header)?.split(',')
    return written?.at(-Math.min(this.#proxies, written.length))?.trim()
  }
}

/** Who is at the other end of the connection, where the server that we are mounted in says so. */
function peerOf(c: Context): string | undefined {
  const { incoming } = (c.env ?? {}) as { incoming?: { socket?: { remoteAddress?: string } } }
  return incoming?.socket?.remoteAddress
}

function networkOf(address: string): string {
  const [head = '', tail = ''] = address.replace(/%.*$/, '').split('::')
  const parts = (text: string) => text.split(':').filter((part) => part !== '')
  const missing = 8 - parts(head).length - parts(tail).length
  const whole = [...parts(head), ...Array<string>(Math.max(0, missing)).fill('0'), ...parts(tail)]
  return whole
    .slice(0, 4)
    .map((part) => Number.parseInt(part, 16).toString(16))
    .join(':')
}
