import type { ServerResponse } from 'node:http'

/** What is sent back: something whole, or something that goes on. */
type WholeReply = { status: number; headers?: Record<string, string>; body?: unknown }
export type Reply =
  | WholeReply
  | {
      stream: (response: ServerResponse) => void
      /** Called instead, when the answer is lost. */
      drop?: () => void
    }

/** An error as the control plane tells it. The SDK reads `code` from the body, and not the status. */
export class ApiError extends Error {
  readonly code: number
  readonly errorCode: string | undefined

  constructor(code: number, message: string, errorCode?: string) {
    super(message)
    this.name = 'ApiError'
    this.code = code
    this.errorCode = errorCode
  }

  get reply(): WholeReply {
    const { code, message, errorCode } = this
    return { status: code, body: { code, message, ...(errorCode !== undefined && { error_code: errorCode }) } }
  }
}

export const noSandbox = (id: string) =>
  new ApiError(404, `Sandbox "${id}" doesn't exist or you don't have access to it`)

/** Text is sent as it is, anything else as JSON. */
export function send(response: ServerResponse, reply: Reply): void {
  if ('stream' in reply) {
    reply.stream(response)
    return
  }
  const { status, headers = {}, body } = reply
  if (body === undefined) response.writeHead(status, headers).end()
  else if (typeof body === 'string' || body instanceof Uint8Array)
    response.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(body)
  else response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
