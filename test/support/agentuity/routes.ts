/** Every call that the server understands. */
const ROUTES = [
  ['POST', '/sandbox', 'create'],
  ['GET', '/sandbox', 'list'],
  ['GET', '/sandbox/snapshots', 'listSnapshots'],
  ['GET', '/sandbox/snapshots/:name', 'getSnapshot'],
  ['DELETE', '/sandbox/snapshots/:name', 'deleteSnapshot'],
  ['GET', '/sandbox/status/:name', 'status'],
  ['GET', '/sandbox/execution/:name', 'getExecution'],
  ['GET', '/sandbox/checkpoints/:name', 'listCheckpoints'],
  ['GET', '/sandbox/sandboxes/:name/events', 'events'],
  ['GET', '/sandbox/sandboxes/:name/executions', 'listExecutions'],
  ['POST', '/sandbox/sandboxes/:name/jobs', 'createJob'],
  ['GET', '/sandbox/sandboxes/:name/jobs', 'listJobs'],
  ['GET', '/sandbox/sandboxes/:name/jobs/:part', 'getJob'],
  ['DELETE', '/sandbox/sandboxes/:name/jobs/:part', 'stopJob'],
  ['GET', '/sandbox/:name', 'get'],
  ['DELETE', '/sandbox/:name', 'destroy'],
  ['POST', '/sandbox/:name/pause', 'pause'],
  ['POST', '/sandbox/:name/resume', 'resume'],
  ['POST', '/sandbox/:name/execute', 'execute'],
  ['POST', '/sandbox/:name/snapshot', 'snapshot'],
  ['POST', '/sandbox/:name/checkpoint', 'createCheckpoint'],
  ['POST', '/sandbox/:name/checkpoint/:part/restore', 'restoreCheckpoint'],
  ['DELETE', '/sandbox/:name/checkpoint/:part', 'deleteCheckpoint'],
  ['GET', '/stream/:name', 'stream'],
] as const

export type Route = (typeof ROUTES)[number][2]
export type Match = { route: Route; name: string; part: string }

export function match(method: string, pathname: string): Match | undefined {
  for (const [verb, pattern, route] of ROUTES) {
    if (verb !== method) continue
    const found = new RegExp(`^${pattern.replace(/:(\w+)/g, '(?<$1>[^/]+)')}$`).exec(pathname)
    if (!found) continue
    const { name = '', part = '' } = found.groups ?? {}
    return { route, name: decodeURIComponent(name), part: decodeURIComponent(part) }
  }
  return undefined
}
