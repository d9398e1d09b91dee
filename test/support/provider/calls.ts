import type { IncomingMessage, ServerResponse } from 'node:http'

export type Method =
  | 'find'
  | 'list'
  | 'listCheckpoints'
  | 'create'
  | 'adopt'
  | 'look'
  | 'end'
  | 'run'
  | 'endLingering'
  | 'suspend'
  | 'resume'
  | 'verify'
  | 'discard'
  | 'take'
  | 'lease'
  | 'startAgent'
  | 'stopAgent'
  | 'agentStatus'
  | 'attach'

export type Body = Record<string, never> & { [key: string]: unknown }
export type Reply = { result: unknown } | { error: { type: string; message: string } }

/** What may happen to a call, instead of an answer. */
export type Fault =
  /** Never answered. `performed` first, or not. */
  | { kind: 'hang'; performed: boolean }
  /** The connection is cut: before it was performed, or after, so that only the answer is lost. */
  | { kind: 'cut'; performed: boolean }
  /** A gateway's 404 in plain text. */
  | { kind: 'plain 404' }
  | { kind: 'status'; status: number }
  /** It says that it has done it, and has not. */
  | { kind: 'lie' }
  /** The provider's own typed error. */
  | { kind: 'error'; type: string; message: string }

export function notFound(ref: string): Reply {
  return { error: { type: 'not_found', message: `there is no ${ref}` } }
}

export async function read(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

export function send(response: ServerResponse, reply: Reply): void {
  const status = 'error' in reply ? (reply.error.type === 'not_found' ? 404 : 409) : 200
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(reply))
}
