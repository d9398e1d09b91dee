import type { ServerResponse } from 'node:http'

/** What is answered: JSON, a text, nothing; or something that goes on. */
export type Reply =
  | { status: number; body?: unknown; headers?: Record<string, string> }
  | { stream(response: ServerResponse): void }

/** An error in the words of the API. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string | undefined

  constructor(status: number, message: string, code?: string) {
    super(message)
    this.status = status
    this.code = code
  }

  get reply(): Reply {
    const { status, message, code } = this
    return { status, body: { success: false, message, ...(code !== undefined && { code }) } }
  }
}

export const noSandbox = () => new ApiError(404, 'Sandbox not found', 'SANDBOX_NOT_FOUND')
export const noSnapshot = () => new ApiError(404, 'Snapshot not found', 'SNAPSHOT_NOT_FOUND')
export const conflict = (message: string) => new ApiError(409, message)

export const done = (data?: unknown, status = 200): Reply => ({
  status,
  body: { success: true, ...(data !== undefined && { data }) },
})

export function send(response: ServerResponse, reply: Reply): void {
  if ('stream' in reply) {
    reply.stream(response)
    return
  }
  const { status, body, headers } = reply
  const isText = typeof body === 'string'
  const type = body === undefined ? {} : { 'content-type': isText ? 'text/plain' : 'application/json' }
  response.writeHead(status, { ...type, ...headers }).end(isText ? body : JSON.stringify(body))
}
