/** What can be asked for, by the names that faults and gates are set with. */
export type ControlRoute =
  | 'create'
  | 'connect'
  | 'get'
  | 'list'
  | 'pause'
  | 'timeout'
  | 'refresh'
  | 'kill'
  | 'snapshot'
  | 'listSnapshots'
  | 'deleteSnapshot'

export type DataRoute =
  | 'start'
  | 'attach'
  | 'listProcesses'
  | 'signal'
  | 'input'
  | 'closeStdin'
  | 'health'
  | 'readFile'
  | 'writeFile'
  /** What listens inside on a port of its own. */
  | 'preview'

export type Route = ControlRoute | DataRoute

const ID = '([^/]+)'
const CONTROL: [method: string, path: RegExp, route: ControlRoute][] = [
  ['POST', /^\/v2\/sandboxes$/, 'create'],
  ['GET', /^\/v2\/sandboxes$/, 'list'],
  ['POST', new RegExp(`^/v2/sandboxes/${ID}/connect$`), 'connect'],
  ['GET', new RegExp(`^/sandboxes/${ID}$`), 'get'],
  ['DELETE', new RegExp(`^/sandboxes/${ID}$`), 'kill'],
  ['POST', new RegExp(`^/sandboxes/${ID}/pause$`), 'pause'],
  ['POST', new RegExp(`^/sandboxes/${ID}/timeout$`), 'timeout'],
  ['POST', new RegExp(`^/sandboxes/${ID}/refreshes$`), 'refresh'],
  ['POST', new RegExp(`^/sandboxes/${ID}/snapshots$`), 'snapshot'],
  ['GET', /^\/snapshots$/, 'listSnapshots'],
  ['DELETE', new RegExp(`^/templates/${ID}$`), 'deleteSnapshot'],
]

const DATA: Record<string, DataRoute> = {
  'POST /process.Process/Start': 'start',
  'POST /process.Process/Connect': 'attach',
  'POST /process.Process/List': 'listProcesses',
  'POST /process.Process/SendSignal': 'signal',
  'POST /process.Process/SendInput': 'input',
  'POST /process.Process/CloseStdin': 'closeStdin',
  'GET /health': 'health',
  'GET /files': 'readFile',
  'POST /files': 'writeFile',
}

export const STREAMING: ReadonlySet<Route> = new Set(['start', 'attach'])

export type Match =
  | { plane: 'control'; route: ControlRoute; name: string }
  | { plane: 'data'; route: DataRoute; name: string; port: number; rest: string }

const ENVD_PORT = 49_983

/**
 * A sandbox's own port is meant by the host `<port>-<id>.…`, as in the cloud, by the headers that the SDK sends, or by the path
 * `/preview/<port>/<id>/…`: names below loopback cannot be relied on.
 */
export function match(method: string, url: URL, headers: NodeJS.Dict<string | string[]>): Match | undefined {
  const { pathname } = url
  const [, byHost, hostId] = String(headers.host).match(/^(\d+)-([^.]+)\./) ?? []
  const [, byPath, pathId, below] = pathname.match(/^\/preview\/(\d+)\/([^/]+)(\/.*)?$/) ?? []
  const port = Number(byHost ?? byPath ?? headers['e2b-sandbox-port'] ?? ENVD_PORT)
  const name = hostId ?? pathId ?? headers['e2b-sandbox-id']
  if (name !== undefined) {
    const rest = `${byPath === undefined ? pathname : (below ?? '/')}${url.search}`
    const route = port === ENVD_PORT ? DATA[`${method} ${pathname}`] : 'preview'
    return route && { plane: 'data', route, name: shortId(String(name)), port, rest }
  }
  for (const [verb, pattern, route] of CONTROL) {
    const found = verb === method && pathname.match(pattern)
    if (found) return { plane: 'control', route, name: shortId(decodeURIComponent(found[1] ?? '')) }
  }
  return undefined
}

/** An id may be followed by a client's, which means nothing any more. */
function shortId(name: string): string {
  return name.replace(/^(i[a-z0-9]{20})-[a-z0-9]+$/, '$1')
}
