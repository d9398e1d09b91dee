import { type LostAnswer, type OtherAnswer, replyOf } from '../scripted-faults.ts'
import { ApiError, type Reply } from './replies.ts'
import { type RpcCode, RpcError } from './rpc.ts'

/** What may happen to a stream of output that began well, after exactly so many bytes of output. */
export type StreamFault = {
  afterBytes: number
  how:
    | 'reset'
    /** The connection is closed in the middle of the answer. */
    | 'cut'
    /** It ends as if all were well, but nothing was said of the process's end. */
    | 'end'
    /** The answer is whole as HTTP, but not as a stream: its last frame is missing. */
    | 'short'
    | 'hang'
}

/** What may happen to a call instead of an answer, or to what it does. */
export type Fault =
  | LostAnswer
  | { kind: 'lag'; ms: number }
  | OtherAnswer
  /** It says that it has done it, and has not. */
  | { kind: 'lie' }
  | { kind: 'rpc'; code: RpcCode; message?: string; performed?: boolean }
  /** Of a pause: it fails, and the sandbox is lost with it. */
  | { kind: 'lost' }
  /** Of a pause: it succeeds, but what it has left is gone once `loseUploads` is called. */
  | { kind: 'doomed' }
  /** Of the lists: what they make of what is there. For an old one, keep what `listed` gave. */
  | { kind: 'list'; shows: Shows }
  /** Of `start` and `attach`. */
  | ({ kind: 'stream' } & StreamFault)

export type Shows = (all: unknown[]) => unknown[]

/** An error in the words of the API. */
export function apiError(code: number, message: string, errorCode?: string): OtherAnswer {
  const { body } = new ApiError(code, message, errorCode).reply
  return { kind: 'status', status: code, body }
}

/** What gateways and proxies say, who know nothing of sandboxes, and what servers say in their hurry. */
export const GATEWAY = {
  plain404: { kind: 'status', status: 404, body: '404 page not found' },
  empty404: { kind: 'status', status: 404 },
  codeless404: { kind: 'status', status: 404, body: { message: 'no route matched with those values' } },
  internalError: { kind: 'status', status: 500, body: 'Internal Server Error' },
  html502: {
    kind: 'status',
    status: 502,
    body: '<html><head><title>502 Bad Gateway</title></head></html>',
    headers: { 'content-type': 'text/html' },
  },
  bare503: { kind: 'status', status: 503, body: 'upstream connect error' },
  bare429: { kind: 'status', status: 429, body: 'slow down' },
} as const satisfies Record<string, Fault>

export const unauthorized = apiError(401, 'Invalid API key')
export const forbidden = apiError(403, 'You do not have access to this resource')
export const nodeBusy = apiError(503, 'The node is busy, please retry')
export const noCapacity = apiError(503, 'Failed to place sandbox: no node has room', 'sandbox_capacity_unavailable')
export const placementTimeout = apiError(504, 'Failed to place sandbox: timed out', 'sandbox_placement_timeout')
export const tooManySandboxes = apiError(429, 'you have reached the maximum number of concurrent E2B sandboxes (20)')

/** The SDK waits and tries again when it is told how long, and fails at once when not. */
export function rateLimited(retryAfterS?: number): Fault {
  const fault = apiError(429, 'Rate limit exceeded')
  return { ...fault, ...(retryAfterS !== undefined && { headers: { 'Retry-After': String(retryAfterS) } }) }
}

/** Whether what was asked for is done. */
export function isPerformed(fault: Fault | undefined): boolean {
  switch (fault?.kind) {
    case 'hang':
    case 'cut':
    case 'reset':
      return fault.performed
    case 'status':
    case 'rpc':
      return fault.performed === true
    case 'lie':
      return false
    default:
      return true
  }
}

/** What is answered instead; undefined where the answer is as usual, and `silence` where there is none. */
export function answerTo(fault: Fault | undefined, isStreaming: boolean): Reply | 'silence' | undefined {
  switch (fault?.kind) {
    case 'hang':
    case 'cut':
    case 'reset':
      return 'silence'
    case 'status':
      return replyOf(fault)
    case 'rpc': {
      const error = new RpcError(fault.code, fault.message ?? 'so it was scripted')
      return isStreaming ? error.streamReply : error.reply
    }
    default:
      return undefined
  }
}
