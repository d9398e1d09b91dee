import type { Reply } from './replies.ts'

/** As much of the Connect protocol, with JSON, as envd and its client speak. */
const HTTP_STATUS = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  aborted: 409,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  unauthenticated: 401,
} as const

export type RpcCode = keyof typeof HTTP_STATUS

export class RpcError extends Error {
  readonly code: RpcCode

  constructor(code: RpcCode, message: string) {
    super(message)
    this.name = 'RpcError'
    this.code = code
  }

  /** A call that is answered once fails with a status. */
  get reply(): Reply {
    return { status: HTTP_STATUS[this.code], body: { code: this.code, message: this.message } }
  }

  /** One that is answered by a stream has succeeded as far as HTTP knows, and fails in its last frame. */
  get streamReply(): Reply {
    return { stream: (response) => response.writeHead(200, STREAM_HEADERS).end(lastFrame(this)) }
  }
}

export const STREAM_HEADERS = { 'content-type': 'application/connect+json' }
const FLAG_LAST = 2

export function frame(message: unknown, flags = 0): Buffer {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

export function lastFrame(error?: RpcError): Buffer {
  return frame(error ? { error: { code: error.code, message: error.message } } : {}, FLAG_LAST)
}

/** The one message that a call with a stream as its answer begins with. */
export function unframe(body: Buffer): unknown {
  if (body.length < 5 || body.readUInt8(0) !== 0 || body.length < 5 + body.readUInt32BE(1))
    throw new RpcError('invalid_argument', 'protocol error: the request is not one whole frame')
  return JSON.parse(body.subarray(5, 5 + body.readUInt32BE(1)).toString())
}
