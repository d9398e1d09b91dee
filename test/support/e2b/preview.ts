import { request } from 'node:http'
import type { Reply } from './replies.ts'

type Forwarded = {
  name: string
  port: number
  rest: string
  method: string
  headers: NodeJS.Dict<string | string[]>
  raw: Buffer
}

/** To whatever listens on that port of this machine: all sandboxes share its ports. */
export function forward({ name, port, rest, method, headers, raw }: Forwarded): Promise<Reply> {
  const { host: _, 'transfer-encoding': _chunked, ...others } = headers
  return new Promise((resolve) => {
    const asked = request({
      host: '127.0.0.1',
      port,
      path: rest,
      method,
      headers: { ...others, 'content-length': raw.length },
    })
    asked.on('response', (answer) => {
      resolve({
        stream: (response) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers)
          answer.pipe(response)
          answer.on('error', () => response.destroy())
          response.on('close', () => asked.destroy())
        },
        drop: () => asked.destroy(),
      })
    })
    asked.on('error', () => {
      const message = 'The sandbox is running but port is not open'
      resolve({ status: 502, body: { sandboxId: name, message, port, code: 502 } })
    })
    asked.end(raw)
  })
}
