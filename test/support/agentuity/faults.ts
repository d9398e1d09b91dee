import { type LostAnswer, type OtherAnswer, replyOf } from '../scripted-faults.ts'
import { ApiError, type Reply } from './replies.ts'

/** What may happen to a stream that began well, after exactly so many bytes. */
export type StreamFault = { afterBytes: number; how: 'reset' | 'end' | 'hang' }

/** What becomes of a pause that goes wrong. */
export type PauseFate =
  /** It is suspended, and its history says that a checkpoint was received, but none was recorded. */
  | 'records nothing'
  /** The same, and the answer names a checkpoint all the same. */
  | 'names what is not there'
  /** All is well, but the answer does not name the checkpoint. */
  | 'does not tell'
  /** It fails, and leaves a sandbox that is shown as idle, in which nothing works. */
  | 'breaks it'

/** What becomes of a resume that goes wrong. */
export type ResumeFate =
  /** It runs, without any of its files. */
  | 'wipes it'
  /** It is shown as idle, and nothing works in it. */
  | 'leaves it hollow'

/** What may happen to a call instead of an answer, or to what it does. */
export type Fault =
  | LostAnswer
  | OtherAnswer
  /** It says that it has done it, and has not. */
  | { kind: 'lie'; body?: unknown }
  /** It is done, and answered with nothing. */
  | { kind: 'no content' }
  | { kind: 'pause'; fate: PauseFate }
  | { kind: 'resume'; fate: ResumeFate }
  | ({ kind: 'stream' } & StreamFault)

/** An error in the words of the API. */
export function apiError(status: number, message: string, code?: string): Fault {
  const { reply } = new ApiError(status, message, code)
  return { kind: 'status', status, ...('body' in reply && { body: reply.body }) }
}

/** What gateways and proxies say, who know nothing of sandboxes, and what servers say in their hurry. */
export const GATEWAY = {
  plain404: { kind: 'status', status: 404, body: '404 page not found' },
  empty404: { kind: 'status', status: 404 },
  codeless404: { kind: 'status', status: 404, body: { success: false, message: 'no route matched' } },
  html502: {
    kind: 'status',
    status: 502,
    body: '<html><head><title>502 Bad Gateway</title></head></html>',
    headers: { 'content-type': 'text/html' },
  },
  bare503: { kind: 'status', status: 503, body: 'upstream connect error' },
  internalError: { kind: 'status', status: 500, body: { success: false, message: 'Internal Server Error' } },
  welcome: { kind: 'status', status: 200, body: '<h1>Welcome</h1>', headers: { 'content-type': 'text/html' } },
} as const satisfies Record<string, Fault>

/** Whether what was asked for is done. */
export function isPerformed(fault: Fault | undefined): boolean {
  if (fault?.kind === 'lie') return false
  if (fault && 'performed' in fault) return fault.performed === true
  return fault?.kind !== 'status'
}

/** What is answered instead; undefined where the answer is as usual, and `silence` where there is none. */
export function answerTo(fault: Fault | undefined): Reply | 'silence' | undefined {
  switch (fault?.kind) {
    case 'hang':
    case 'cut':
    case 'reset':
      return 'silence'
    case 'status':
      return replyOf(fault)
    case 'lie':
      return { status: 200, body: fault.body ?? { success: true } }
    case 'no content':
      return { status: 204 }
    default:
      return undefined
  }
}
