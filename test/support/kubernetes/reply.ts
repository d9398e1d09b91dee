import type { ServerResponse } from 'node:http'
import type { ApiError } from './api-error.ts'

/** What is sent back: something whole, or something that goes on. */
export type WholeReply = { status: number; body: string; type: string; headers?: Record<string, string> }
export type Reply = WholeReply | { stream: (response: ServerResponse) => void | Promise<void> }

export const json = (status: number, body: string): WholeReply => ({ status, body, type: 'application/json' })

/** Of what is not served, be it a path or a version: no word of the API. */
export const NOT_SERVED: WholeReply = { status: 404, body: '404 page not found\n', type: 'text/plain; charset=utf-8' }

export function failure(error: ApiError): WholeReply {
  const reply = json(error.code, JSON.stringify(error.status))
  const seconds = error.details?.retryAfterSeconds
  return seconds === undefined ? reply : { ...reply, headers: { 'retry-after': String(seconds) } }
}

export function send(response: ServerResponse, reply: WholeReply): void {
  const bytes = Buffer.from(reply.body)
  response.writeHead(reply.status, headersOf(reply, bytes)).end(bytes)
}

/** As if somebody on the way had died. */
export function sendHalf(response: ServerResponse, reply: WholeReply): void {
  const bytes = Buffer.from(reply.body)
  response.writeHead(reply.status, headersOf(reply, bytes))
  response.write(bytes.subarray(0, bytes.length / 2), () => response.socket?.destroy())
}

function headersOf({ type, headers }: WholeReply, bytes: Buffer): Record<string, string> {
  return { ...(type !== '' && { 'content-type': type }), 'content-length': String(bytes.length), ...headers }
}
