export type RedisTarget = {
  kind: 'single' | 'cluster' | 'sentinel'
  nodes: { host: string; port: number }[]
  tls: boolean
  username: string | undefined
  password: string | undefined
  /** The primary's name, as the sentinels know it. */
  sentinelName: string | undefined
  db: number
}

const DEFAULT_PORT = { single: 6379, cluster: 6379, sentinel: 26_379 }

/**
 * `redis[s]://user:password@host:port/db`, `redis[s]+cluster://host:port,host:port` or
 * `redis[s]+sentinel://host:port,host:port/name[/db]`. The standard URL parser refuses several hosts, hence our own.
 */
export function parseRedisUrl(url: string): RedisTarget {
  const match = /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?]+)(?:\/([^?]*))?/.exec(url)
  if (!match) throw new TypeError('not a Redis URL')
  const [, scheme, mode, username, password, hosts, pathname = ''] = match
  const kind = (mode ?? 'single') as RedisTarget['kind']
  const segments = pathname.split('/').filter((segment) => segment !== '')
  return {
    kind,
    nodes: (hosts as string).split(',').map((node) => parseNode(node, DEFAULT_PORT[kind])),
    tls: scheme === 'rediss',
    username: username ? decodeURIComponent(username) : undefined,
    password: password ? decodeURIComponent(password) : undefined,
    sentinelName: kind === 'sentinel' ? (segments[0] ?? 'mymaster') : undefined,
    db: Number(segments[kind === 'sentinel' ? 1 : 0] ?? 0) || 0,
  }
}

export function isRedisUrl(url: string): boolean {
  try {
    parseRedisUrl(url)
    return true
  } catch {
    return false
  }
}

/** Where it points, for people: never the password. */
export function describeRedis(target: RedisTarget): string {
  const nodes = target.nodes.map(({ host, port }) => `${host}:${port}`).join(', ')
  if (target.kind === 'cluster') return `Redis Cluster at ${nodes}`
  if (target.kind === 'sentinel') return `Redis ${target.sentinelName} behind the sentinels at ${nodes}`
  return `Redis at ${nodes}${target.db === 0 ? '' : `, database ${target.db}`}`
}

function parseNode(text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text)
  if (!match) throw new TypeError(`not a host and port: ${text}`)
  const port = match[2] ? Number(match[2]) : defaultPort
  if (port > 65_535) throw new TypeError(`not a port: ${port}`)
  return { host: (match[1] as string).replace(/^\[|\]$/g, ''), port }
}
