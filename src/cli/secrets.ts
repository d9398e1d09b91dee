import type { Config } from '../config.ts'

/** What must not be seen, wherever it turns up. */
export function secretsOf({ databaseUrl, redisUrl, tokens, e2b, agentuity, tracing }: Config): string[] {
  const passwords = [databaseUrl, redisUrl].flatMap((url) => /:\/\/[^:@/]*:([^@/]+)@/.exec(url ?? '')?.[1] ?? [])
  // As they are written, and as a library may show them. That they can be decoded has been checked with the rest.
  const decoded = passwords.map(decodeURIComponent)
  const keys = [e2b.apiKey, agentuity.apiKey].filter((key) => key !== undefined)
  // The whole of what stands behind each name: whether it is a key is for the collector to know.
  const headers = (tracing.headers ?? '').split(',').map((header) => header.replace(/^[^=]*=/, ''))
  return [...tokens.map(({ secret }) => secret), ...keys, ...headers, ...passwords, ...decoded]
}
