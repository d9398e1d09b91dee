import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Holds } from '../holds.ts'
import { leaveUnanswered, type ScriptedFaults } from '../scripted-faults.ts'
import type { Cloud } from './cloud.ts'
import { control } from './control-plane.ts'
import { data, ProxyError } from './data-plane.ts'
import { answerTo, type Fault, isPerformed } from './faults.ts'
import { lieOf } from './lies.ts'
import { ApiError, type Reply, send } from './replies.ts'
import { type Match, match, type Route, STREAMING } from './routes.ts'
import { RpcError, unframe } from './rpc.ts'

/** What was asked, in the order in which it came. */
export type Asked = {
  route: Route
  /** The id of the sandbox, or the name of the template. */
  name: string
  body: unknown
  query: URLSearchParams
  headers: NodeJS.Dict<string | string[]>
  /** It was done, or at least tried. */
  isPerformed: boolean
  /** Undefined as long as there is no answer. */
  status: number | undefined
}

/** What a call meets on its way. */
export type Desk = {
  apiKey: string
  cloud: Cloud
  faults: ScriptedFaults<Route, Fault>
  arrivals: Holds<Route>
  answers: Holds<Route>
  requests: Asked[]
  stopping: AbortSignal
}

type Incoming = { request: IncomingMessage; raw: Buffer; found: Match; asked: Asked }

/** A call and its answer, with all that may happen to either. */
export async function exchange(desk: Desk, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://x')
  const raw = await read(request)
  const found = match(request.method ?? 'GET', url, request.headers)
  if (!found) return send(response, { status: 404, body: '404 page not found' })
  const { route, name } = found
  const isStreaming = STREAMING.has(route)
  const asked: Asked = {
    route,
    name,
    body: parse(raw, isStreaming),
    query: url.searchParams,
    headers: request.headers,
    isPerformed: false,
    status: undefined,
  }
  desk.requests.push(asked)
  await desk.arrivals.reach(route)
  const fault = desk.faults.take(route)
  if (fault?.kind === 'lag') await sleep(fault.ms, undefined, { signal: desk.stopping }).catch(() => {})
  asked.isPerformed = isPerformed(fault)
  const reply = asked.isPerformed ? await perform(desk, { request, raw, found, asked }, fault) : lieOf(route, name)
  await desk.answers.reach(route)
  const instead = answerTo(fault, isStreaming)
  if (instead !== undefined && 'drop' in reply) reply.drop?.()
  if (instead === 'silence') return leaveUnanswered(request, fault)
  send(response, instead ?? reply)
  asked.status = response.statusCode
}

/** Failures are answers too. */
async function perform({ apiKey, cloud }: Desk, incoming: Incoming, fault: Fault | undefined): Promise<Reply> {
  const { request, raw, found, asked } = incoming
  const { headers, method = 'GET' } = request
  try {
    if (found.plane === 'data') {
      const breaks = fault?.kind === 'stream' ? fault : undefined
      return await data(cloud, { ...found, headers, method, raw, message: asked.body, fault: breaks })
    }
    if (headers['x-api-key'] !== apiKey) throw new ApiError(401, 'Invalid API key')
    return await control(cloud, {
      route: found.route,
      name: found.name,
      body: asked.body as Record<string, unknown>,
      query: asked.query,
      shows: fault?.kind === 'list' ? fault.shows : undefined,
      fate: fault?.kind === 'lost' || fault?.kind === 'doomed' ? fault.kind : undefined,
    })
  } catch (error) {
    if (error instanceof RpcError) return STREAMING.has(found.route) ? error.streamReply : error.reply
    if (error instanceof ApiError || error instanceof ProxyError) return error.reply
    throw error
  }
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** What is not JSON is a file, and nobody asks for it here. */
function parse(raw: Buffer, isStreaming: boolean): unknown {
  if (isStreaming) return unframe(raw)
  try {
    return raw.length === 0 ? {} : JSON.parse(raw.toString())
  } catch {
    return {}
  }
}
