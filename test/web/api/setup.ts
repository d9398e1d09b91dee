import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { expect } from 'vitest'
import type { z } from 'zod'
import type { Fleet } from '../../../src/index.ts'
import { ProblemBody } from '../../../src/web/api/answers.ts'
import { ENDPOINTS } from '../../../src/web/api/endpoints.ts'
import { createApp } from '../../../src/web/app.ts'
import { HERE } from '../../support/here.ts'

type Told = {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: what is asked for here is what the schemas have already looked at
  body: any
}

type Sent = { method?: string; body?: unknown; headers?: Record<string, string> }

/** The API of a fleet, asked as a program does. Whatever it answers has to be as its schema says, to the last field. */
export function siteOf(fleet: Fleet) {
  const app = createApp(fleet)

  const fetch = (path: string, { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {}) =>
    app.request(`http://127.0.0.1${path}`, { ...init, headers: { host: '127.0.0.1', ...headers } }, HERE)

  async function ask(path: string, { method = 'POST', body, headers }: Sent = {}): Promise<Told> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(path, { method, ...sent, headers: { ...type, ...headers } })
    const told = { status: response.status, headers: response.headers, body: await response.json() }
    checkAnswer(method, path, told)
    return told
  }

  return { app, fetch, post: ask, get: (path: string, sent: Sent = {}) => ask(path, { ...sent, method: 'GET' }) }
}

/** The same on a socket, by the server that `sandman web` uses. */
export async function serveHttp(fleet: Fleet): Promise<{ url: string; stop(): Promise<void> }> {
  const globals = Object.getOwnPropertyDescriptors({ Request, Response })
  const server = createServer(getRequestListener(createApp(fleet).fetch))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      Object.defineProperties(globalThis, globals) // it has put its own in their place
    },
  }
}

/** An answer has to be as the document says: its status is one of the endpoint's, and its body fits. */
export function checkAnswer(method: string, path: string, { status, headers, body }: Told): void {
  if (status >= 400) {
    expect(headers.get('content-type')).toBe('application/problem+json')
    const { status: told, detail, message } = ProblemBody.parse(body)
    expect(told).toBe(status)
    expect(detail).toBe(message)
    return
  }
  const endpoint = ENDPOINTS.find((each) => each.method === method && matches(each.path, path))
  const schema = endpoint?.answers[status as 200 | 202] as z.ZodType
  expect(schema, `${method} ${path} ${status}`).toBeDefined()
  expect(schema.parse(body)).toEqual(body)
}

function matches(pattern: string, path: string): boolean {
  const [plain = ''] = path.split('?')
  return new RegExp(`^${pattern.replaceAll(':id', '[^/]+')}$`).test(plain)
}
