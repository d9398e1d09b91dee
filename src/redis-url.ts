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

const USUAL =
  'must be a URL such as redis://host:6379, redis+cluster://host:6379,host:6380 or redis+sentinel://host:26379/name-of-the-primary'

/**
 * `redis[s]://user:password@host:port/db`, `redis[s]+cluster://host:port,host:port` or
 * `redis[s]+sentinel://host:port,host:port/name[/db]`. The standard URL parser refuses several hosts, hence our own.
 *
 * What cannot be read is an error, and nothing is guessed: a database that was mistyped would be the first one, where another
 * deployment may be. No part of it is repeated, because any may be a password that was not escaped.
 */
export function parseRedisUrl(url: string): RedisTarget {
  const match =
    /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?]+)(?:\/([^?]*))?(\?.*)?$/s.exec(url)
  if (!match) throw new TypeError(USUAL)
  const [, scheme, mode, username, password, hosts, pathname = '', query] = match
  if (query !== undefined) throw new TypeError('has a query, of which nothing is read: leave out what is behind the ?')
  const kind = (mode ?? 'single') as RedisTarget['kind']
  const segments = pathname.split('/').filter((segment) => segment !== '')
  return {
    kind,
    nodes: (hosts as string).split(',').map((node) => parseNode(node, DEFAULT_PORT[kind])),
    tls: scheme === 'rediss',
    username: username ? decode(username) : undefined,
    password: password ? decode(password) : undefined,
    ...parsePath(kind, segments),
  }
}

/** What is wrong with such a URL, to be read behind its name. */
export function problemOfRedisUrl(url: string): string | undefined {
  try {
    parseRedisUrl(url)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** Where it points, for people: never the password. */
export function describeRedis(target: RedisTarget): string {
  const nodes = target.nodes.map(({ host, port }) => `${host}:${port}`).join(', ')
  if (target.kind === 'cluster') return `Redis Cluster at ${nodes}`
  if (target.kind === 'sentinel') return `Redis ${target.sentinelName} behind the sentinels at ${nodes}`
  return `Redis at ${nodes}${target.db === 0 ? '' : `, database ${target.db}`}`
}

function parsePath(kind: RedisTarget['kind'], segments: string[]): Pick<RedisTarget, 'sentinelName' | 'db'> {
  if (kind === 'cluster' && segments.length > 0)
    throw new TypeError('has a database, and a cluster has none but its first: leave out what is behind the hosts')
  const [sentinelName, database = '0', ...more] = kind === 'sentinel' ? segments : [undefined, ...segments]
  if (more.length > 0)
    throw new TypeError('has more behind its hosts than is read: the number of a database comes last')
  if (!/^\d{1,9}$/.test(database)) throw new TypeError('has a database that is not a number such as /3')
  return { sentinelName: kind === 'sentinel' ? (sentinelName ?? 'mymaster') : undefined, db: Number(database) }
}

function parseNode(text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text)
  if (!match) throw new TypeError('has a host that is not host:port')
  const port = match[2] ? Number(match[2]) : defaultPort
  if (port > 65_535) throw new TypeError('has a port above 65535')
  return { host: (match[1] as string).replace(/^\[|\]$/g, ''), port }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new TypeError(USUAL)
  }
}
