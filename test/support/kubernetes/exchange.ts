import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Holds } from '../holds.ts'
import { ApiError, badRequest, methodNotAllowed, unauthorized } from './api-error.ts'
import { discover } from './discovery.ts'
import { type ExecAsked, execAsked, execSession } from './exec-session.ts'
import type { Fault, Faults } from './faults.ts'
import { type Hands, perform } from './perform.ts'
import { authorize, type Rule } from './rbac.ts'
import { failure, json, NOT_SERVED, type Reply, send, sendHalf, type WholeReply } from './reply.ts'
import type { Asked, Requests } from './requests.ts'
import type { Resource } from './resources.ts'
import { type Path, parsePath, targetOf, verbOf } from './routes.ts'
import type { Target } from './target.ts'
import { type Socket, socketServer } from './websocket.ts'

/** What a request meets on its way. A place is `verb resource`, as `create pods`. */
export type Desk = {
  token: string
  version: string
  resources: readonly Resource[]
  hands: Hands
  rules: readonly Rule[] | undefined
  faults: Faults
  arrivals: Holds<string>
  answers: Holds<string>
  requests: Requests
  latencyMs: number
  /** Those that the server speaks, over which commands are run. */
  execProtocols: readonly string[]
  /** Of the commands that are being run. */
  execSockets: Set<Socket>
  stopping: AbortSignal
}

type Found = { asked: Asked; path: Path | undefined }

/** A request and its answer, with all that may happen to either. */
export async function exchange(desk: Desk, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const raw = await read(request)
  const found = record(desk, request, parse(raw), false)
  const { asked } = found
  const place = `${asked.verb} ${asked.resource}`
  const fault = await arrive(desk, asked, place)
  if (fault === 'hang') return
  if (fault === 'reset') return void request.socket.resetAndDestroy()
  const reply = scripted(fault) ?? admit(desk, found, (target) => act(desk, asked, target))
  await desk.answers.reach(place)
  if (fault === 'lost answer') return void request.socket.resetAndDestroy()
  asked.status = 'stream' in reply ? 200 : reply.status
  if ('stream' in reply) return reply.stream(response)
  if (fault === 'cut answer') return sendHalf(response, reply)
  send(response, reply)
}

/** The same for a command in a container, whose answer is a socket. */
export async function upgrade(desk: Desk, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  socket.on('error', () => {})
  const found = record(desk, request, undefined, true)
  const { asked } = found
  const place = `${asked.verb} ${asked.resource}`
  const fault = await arrive(desk, asked, place)
  if (fault === 'hang') return
  if (fault === 'reset') return void request.socket.resetAndDestroy()
  let exec: ExecAsked | undefined
  const refusal =
    scripted(fault) ??
    admit(desk, found, (target) => {
      if (target.subresource !== 'exec') throw badRequest('Upgrade request not expected')
      const pod = desk.hands.api.find(target)
      desk.hands.wake(pod.metadata.uid)
      exec = execAsked(pod, desk.hands.kubelet.worker(pod.metadata.uid), asked.query)
      return json(200, '')
    })
  if (fault === 'lost answer' && exec) {
    const { command, stdin, tty, container } = exec
    await container.exec({ command, stdin, tty })
    return void request.socket.resetAndDestroy()
  }
  await desk.answers.reach(place)
  if (!exec || scripted(fault)) return refuse(socket, refusal as WholeReply)
  const wanted = exec
  asked.status = 101
  socketServer(desk.execProtocols).handleUpgrade(request, socket, head, (opened) => {
    desk.execSockets.add(opened)
    opened.on('close', () => desk.execSockets.delete(opened))
    void execSession(wanted, opened)
  })
}

function record(desk: Desk, request: IncomingMessage, body: unknown, isUpgrade: boolean): Found {
  const { method = 'GET', headers } = request
  const url = new URL(request.url ?? '/', 'http://x')
  const path = parsePath(url.pathname)
  const { plural = '', subresource = '', group = '', namespace, name = '' } = path ?? {}
  const asked: Asked = {
    method,
    path: url.pathname,
    query: url.searchParams,
    verb: path && verbOf(method, path, url.searchParams),
    group,
    resource: subresource === '' ? plural : `${plural}/${subresource}`,
    namespace,
    name,
    at: Date.now(),
    headers,
    body,
    isUpgrade,
    status: undefined,
  }
  desk.requests.push(asked)
  return { asked, path }
}

async function arrive(desk: Desk, asked: Asked, place: string): Promise<Fault | undefined> {
  const pause = (ms: number) => sleep(ms, undefined, { signal: desk.stopping }).catch(() => {})
  await desk.arrivals.reach(place)
  if (desk.latencyMs > 0) await pause(desk.latencyMs)
  const fault = desk.faults.take(asked)
  if (typeof fault === 'object' && 'delayMs' in fault) await pause(fault.delayMs)
  return fault
}

function scripted(fault: Fault | undefined): WholeReply | undefined {
  if (typeof fault !== 'object' || !('status' in fault)) return undefined
  const { status, body = '', headers } = fault
  const isText = typeof body === 'string'
  const { type = isText ? 'text/plain' : 'application/json' } = fault
  return { status, body: isText ? body : JSON.stringify(body), type, ...(headers && { headers }) }
}

/** Who is it, may he, and is there such a thing: in this order. */
function admit(desk: Desk, { asked, path }: Found, go: (target: Target) => Reply): Reply {
  const { version, resources, rules, token } = desk
  try {
    if (asked.headers.authorization !== `Bearer ${token}`) throw unauthorized()
    if (!path) return aboutItself(asked.path, version, resources)
    if (rules) for (const verb of verbsOf(asked, version)) authorize(rules, { ...wantedOf(path, resources), verb })
    const target = targetOf(resources, path)
    if (!target) return NOT_SERVED
    if (!asked.verb) throw methodNotAllowed()
    return go(target)
  } catch (error) {
    if (error instanceof ApiError) return failure(error)
    throw error
  }
}

function act({ hands }: Desk, { verb = 'get', query, body, headers }: Asked, target: Target): Reply {
  const agent = String(headers['user-agent'] ?? 'unknown').split('/')[0] ?? 'unknown'
  const manager = query.get('fieldManager') ?? agent
  return perform(hands, verb, target, { query, body, manager, contentType: String(headers['content-type'] ?? '') })
}

function verbsOf({ verb = 'get', isUpgrade }: Asked, version: string): string[] {
  return isUpgrade && Number(version.split('.')[1]) >= 35 ? [verb, 'create'] : [verb]
}

function wantedOf({ group, plural, subresource, namespace, name }: Path, resources: readonly Resource[]) {
  const known = resources.find((one) => one.group === group && one.plural === plural)
  return { resource: known ?? { group, plural, kind: plural }, subresource, namespace, name }
}

function aboutItself(pathname: string, version: string, resources: readonly Resource[]): Reply {
  if (['/healthz', '/livez', '/readyz'].includes(pathname)) return { status: 200, body: 'ok', type: 'text/plain' }
  const told = discover(pathname, version, resources)
  return told ? json(200, JSON.stringify(told)) : NOT_SERVED
}

/** No socket, but an answer, after which the connection is closed. */
function refuse(socket: Duplex, { status, body, type }: WholeReply): void {
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** What is not JSON is nothing that anybody here understands. */
function parse(raw: Buffer): unknown {
  try {
    return raw.length === 0 ? undefined : JSON.parse(raw.toString())
  } catch {
    return undefined
  }
}
