import type { AddressInfo } from 'node:net'
import net from 'node:net'
import { text } from 'node:stream/consumers'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { describe, expect, onTestFinished, test } from 'vitest'
import { buildApp, createApp } from '../../src/web/app.ts'
import { HERE } from '../support/here.ts'
import { form, SECRETS, TOKENS, useFleet } from './setup.ts'

const { fleet } = useFleet()
const basePath = '/ops/sandman'

/** Each as some framework does it: with the whole path, without what it is mounted below, or one route after the other. */
const mounts = {
  whole: () => createApp(fleet(), { tokens: TOKENS, basePath }),
  stripped: () => new Hono().mount(basePath, createApp(fleet(), { tokens: TOKENS, basePath }).fetch),
  routed: () => new Hono().route(basePath, createApp(fleet(), { tokens: TOKENS, basePath })),
}

describe.each(Object.keys(mounts) as (keyof typeof mounts)[])('below a path, %s', (how) => {
  test('everything is found, and everything leads back there', async () => {
    const app = mounts[how]()
    const ask = async (path: string, init: RequestInit = {}) =>
      app.request(`http://app.example${basePath}${path}`, init)
    const reader = { headers: { authorization: `Bearer ${SECRETS.read}` } }
    expect((await ask('/healthz')).status).toBe(200)
    expect((await ask('/v1', reader)).status).toBe(200)
    expect((await ask('/v1')).status).toBe(401)

    const person = { headers: { accept: 'text/html' } }
    const login = `${basePath}/login`
    expect((await ask('/queues?a=1', person)).headers.get('location')).toBe(
      `${login}?next=${encodeURIComponent(`${basePath}/queues?a=1`)}`,
    )
    expect((await ask('/', person)).headers.get('location')).toBe(login)
    const page = await (await ask(`/login?next=${basePath}/queues`)).text()
    expect(page).toContain(`action="${login}"`)
    expect(page).toContain(`value="${basePath}/queues"`)
    expect(await (await ask('/login?next=/admin')).text()).toContain(`value="${basePath}/"`)

    const inside = await ask('/login', form({ token: SECRETS.read, next: `${basePath}/queues` }))
    expect(inside.headers.get('location')).toBe(`${basePath}/queues`)
    const [cookie = ''] = inside.headers.getSetCookie()
    expect(cookie).toContain(`; Path=${basePath}; `)
    const session = { headers: { cookie: cookie.replace(/;.*/, '') } }
    const board = await ask('/queues', session)
    expect(board.headers.get('content-security-policy')).toContain("base-uri 'self'")
    const html = await board.text()
    expect(html).toContain(`<base href="${basePath}/queues/"`)
    const [script = ''] = /static\/js\/main[^"]+/.exec(html) ?? []
    expect((await ask(`/queues/${script}`, session)).headers.get('content-type')).toContain('javascript')
    expect((await ask('/queues/api/queues', session)).status).toBe(200)
    expect((await ask('/queues/', session)).headers.get('location')).toBe(`${basePath}/queues`)
  })
})

test('a cookie over https below a path keeps to it', async () => {
  const app = createApp(fleet(), { tokens: TOKENS, basePath })
  const answer = await app.request(`https://app.example${basePath}/login`, form({ token: SECRETS.read }))
  expect(answer.headers.getSetCookie()[0]).toMatch(
    /^__Secure-sandman-\S+; Max-Age=43200; Path=\/ops\/sandman; HttpOnly; Secure/,
  )
})

test.each(['sandman', '/sandman/', '//evil', '/a b', '/a?b'])('refuses to be mounted at %j', (path) => {
  expect(() => createApp(fleet(), { basePath: path })).toThrow('basePath')
})

test('a body without a length is read, also where requests are of Node’s own class', async () => {
  const { app, routes } = buildApp(fleet())
  routes.add('POST', '/echo', 'operate', async (c) => c.json({ text: await c.req.text() }))
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false })
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const send = async (rest: string) => {
    const socket = net.connect(port, '127.0.0.1')
    socket.end(`POST /echo HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n${rest}`)
    return text(socket)
  }
  expect(await send('\r\n')).toMatch(/^HTTP\/1.1 200[\s\S]*{"text":""}/)
  expect(await send('transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n')).toMatch(
    /^HTTP\/1.1 200[\s\S]*{"text":"hi"}/,
  )
})

describe('when the process stops', () => {
  test('streams end in order, and what they were made of is told', async () => {
    const stopping = new AbortController()
    const { app, routes } = buildApp(fleet(), { stopping: stopping.signal })
    const told = Promise.withResolvers<unknown>()
    routes.add('GET', '/stream', 'read', (c) => {
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\n')),
        cancel: (reason) => told.resolve(reason),
      })
      return c.body(body, 200, { 'content-type': 'text/event-stream' })
    })
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false })
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    const answer = await fetch(`http://127.0.0.1:${port}/stream`)
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: 1\n\n')
    stopping.abort(new Error('stop'))
    // A connection that was cut would be an error here.
    expect(await reader.read()).toEqual({ done: true, value: undefined })
    expect(await told.promise).toEqual(new Error('stop'))
    const late = await fetch(`http://127.0.0.1:${port}/stream`)
    expect(await late.text()).toBe('')
  })

  test('a reader that leaves is told to the stream, too', async () => {
    const { app, routes } = buildApp(fleet())
    const told = Promise.withResolvers<unknown>()
    routes.add('GET', '/stream', 'read', (c) => {
      const body = new ReadableStream({ cancel: (reason) => told.resolve(reason) })
      return c.body(body, 200, { 'content-type': 'text/event-stream' })
    })
    const answer = await app.request('http://127.0.0.1/stream', { headers: { host: '127.0.0.1' } }, HERE)
    await answer.body?.cancel('left')
    expect(await told.promise).toBe('left')
  })
})
