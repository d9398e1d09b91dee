import type { Cloud } from './cloud.ts'
import { asListed, type Listed } from './records.ts'
import { ApiError, type Reply } from './replies.ts'

const LIMIT_MAX = 100

/**
 * What the list is made of: those that run or are being paused, and what pauses have left of all others. So one that is being
 * copied is not in it, or as it was when it was paused last.
 */
export function listed({ live, paused }: Cloud): Listed[] {
  const shown = [...live.values()].filter(({ state }) => state === 'running' || state === 'pausing')
  const left = [...paused.values()].filter(({ id }) => !shown.some((one) => one.id === id))
  return [...shown, ...left].map(asListed)
}

export function listSandboxes(all: Listed[], query: URLSearchParams, templateOf: (name: string) => string): Reply {
  const states = (query.get('state') ?? 'running,paused').split(',')
  const wanted = parseMetadata(query.get('metadata'))
  const startedAfter = query.get('startedAfter')
  const template = query.get('template')
  const templateId = template === null ? undefined : templateOf(template)
  const found = all.filter(
    ({ metadata = {}, startedAt, templateID }) =>
      wanted.every(([key, value]) => metadata[key] === value) &&
      (startedAfter === null || Date.parse(startedAt) >= Date.parse(startedAfter)) &&
      (templateId === undefined || templateID === templateId),
  )
  const running = found.filter(({ state }) => state === 'running').length
  const total: Record<string, string> = states.includes('running') ? { 'X-Total-Running': String(running) } : {}
  const keyed = found
    .filter(({ state }) => states.includes(state))
    .map((item) => ({ item, key: `${item.startedAt}__${item.sandboxID}` }))
  return page(keyed, query, total)
}

/** Newest first, unless it is asked for otherwise. A page begins behind the last key of the one before it. */
export function page(keyed: { item: unknown; key: string }[], query: URLSearchParams, headers = {}): Reply {
  const limit = Number(query.get('limit') ?? LIMIT_MAX)
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
    throw new ApiError(400, `Invalid limit: must be between 1 and ${LIMIT_MAX}`)
  const isRising = query.get('order') === 'asc'
  const after = parseToken(query.get('nextToken'))
  const sorted = keyed.toSorted((a, b) => (a.key < b.key === isRising ? -1 : 1))
  const rest = sorted.filter(({ key }) => after === undefined || (isRising ? key > after : key < after))
  const shown = rest.slice(0, limit)
  const last = rest.length > limit ? shown.at(-1) : undefined
  const next = last ? { 'X-Next-Token': Buffer.from(last.key).toString('base64url') } : {}
  return { status: 200, headers: { ...headers, ...next }, body: shown.map(({ item }) => item) }
}

function parseToken(token: string | null): string | undefined {
  if (!token) return undefined
  const key = Buffer.from(token, 'base64url').toString()
  if (!key.includes('__')) throw new ApiError(400, 'Invalid next token')
  return key
}

/** The SDK encodes names and values twice; the first time is undone before they are told apart, the second after it. */
function parseMetadata(text: string | null): [string, string][] {
  if (!text) return []
  try {
    return decode(text)
      .split('&')
      .map((pair) => {
        const [key = '', ...value] = pair.split('=')
        return [decode(key), decode(value.join('='))]
      })
  } catch {
    throw new ApiError(400, 'Error parsing metadata')
  }
}

function decode(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '))
}
