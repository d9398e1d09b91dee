import { z } from 'zod'
import { DURATION_MS_MAX, LIMIT_MS_MIN, parseDurationMs } from './duration.ts'
import { problemOfRedisUrl } from './redis-url.ts'

/** What a single setting may be, as somebody writes it into an environment, and what that means. */

/** So many requests in such a time. */
export type Rate = { count: number; perMs: number }

const RATE_UNITS = { s: 1_000, m: 60_000, h: 3_600_000 } as const

export const rate = z.string().transform((text, context): Rate | 'off' => {
  if (text === 'off') return text
  const match = /^([1-9]\d{0,6})\/(s|m|h)$/.exec(text)
  if (match) return { count: Number(match[1]), perMs: RATE_UNITS[match[2] as keyof typeof RATE_UNITS] }
  context.addIssue({ code: 'custom', message: 'must be a rate such as 200/s or 6000/m, or off' })
  return 'off'
})

export function printRate({ count, perMs }: Rate): string {
  return `${count}/${Object.entries(RATE_UNITS).find(([, ms]) => ms === perMs)?.[0]}`
}

export const GRACE_MS_MAX = 3_600_000

export const graceMs = z.string().transform((text, context) => {
  const ms = parseDurationMs(text)
  if (ms !== undefined && ms <= GRACE_MS_MAX) return ms
  context.addIssue({ code: 'custom', message: 'must be a duration such as 500ms, 25s or 15m, and 1h at most' })
  return 0
})

export const port = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a port number')
  .transform(Number)
  .refine((number) => number <= 65_535, 'must be a port number')

// The examples have no password: messages lose what looks like one.
export const postgresUrl = z.string().refine(isPostgresUrl, 'must be a URL such as postgres://user@host:5432/name')

export const redisUrl = z.string().superRefine((url, context) => {
  const problem = problemOfRedisUrl(url)
  if (problem) context.addIssue({ code: 'custom', message: problem })
})

const scopes = ['read', 'operate', 'admin'] as const
export type Scope = (typeof scopes)[number]
export type Token = { name: string; scope: Scope; secret: string }

export const tokens = z.string().transform((text, context): Token[] => {
  const parsed = commaList(text).flatMap((entry) => {
    // Only the first two colons separate: a secret may contain more of them.
    const match = /^([^:]+):(read|operate|admin):(\S{16,})$/.exec(entry)
    return match ? [{ name: match[1] as string, scope: match[2] as Scope, secret: match[3] as string }] : []
  })
  // An entry may be a secret: it is never repeated in a message.
  if (parsed.length !== commaList(text).length) {
    context.addIssue({
      code: 'custom',
      message: `must be a list of name:scope:secret, scope one of ${scopes.join(', ')}, secret of 16 characters or more without spaces`,
    })
  }
  if (new Set(parsed.map(({ secret }) => secret)).size !== parsed.length) {
    context.addIssue({ code: 'custom', message: 'has the same secret twice' })
  }
  return parsed
})

/** A list of names that there are, each once. */
export function someOf<Name extends string>(what: string, known: readonly Name[]) {
  return z.string().transform((text, context): Name[] => {
    const names = [...new Set(commaList(text))]
    const unknown = names.filter((name) => !(known as readonly string[]).includes(name))
    const there = `there are: ${known.join(', ')}`
    if (unknown.length > 0)
      context.addIssue({ code: 'custom', message: `has no ${what} named ${unknown.join(' or ')}; ${there}` })
    if (names.length === 0) context.addIssue({ code: 'custom', message: `names no ${what}; ${there}` })
    return names as Name[]
  })
}

/** A limit of a sandbox, or of how long something is kept. */
export const limit = (text: string) => {
  const ms = parseDurationMs(text)
  return ms !== undefined && ms >= LIMIT_MS_MIN && ms <= DURATION_MS_MAX ? ms : undefined
}

/** A list of `name=value`, each name at most once. */
export function pairs<Value>(known: Record<string, (text: string) => Value | undefined>, example: string) {
  return z.string().transform((text, context): Record<string, Value> => {
    const read = new Map<string, Value>()
    for (const entry of commaList(text)) {
      const [, name = '', given = ''] = /^([a-z_]+)=(.+)$/.exec(entry) ?? []
      const value = Object.hasOwn(known, name) ? known[name]?.(given) : undefined
      if (value === undefined || read.has(name))
        context.addIssue({ code: 'custom', message: `${JSON.stringify(entry)} is not one of ${example}, each once` })
      else read.set(name, value)
    }
    return Object.fromEntries(read)
  })
}

export const podSpec = z.string().transform((text, context): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {}
  context.addIssue({ code: 'custom', message: 'must be an object in JSON, such as {"nodeSelector":{"pool":"agents"}}' })
  return {}
})

export const COUNT_MAX = 999_999

export const count = z
  .string()
  .regex(/^[1-9]\d{0,5}$/, `must be a number from 1 to ${COUNT_MAX}`)
  .transform(Number)

/** It is part of names at every provider, in every queue and on every channel. */
export const fleetName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'must be 1 to 40 of a-z, 0-9 and -')

function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) && canDecode(text)
}

export function isLoopback(name: string): boolean {
  const host = name.toLowerCase()
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
}

function canDecode(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

function commaList(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}
