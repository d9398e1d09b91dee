import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { startWeb } from '../../src/fleet/web.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { startProxy } from '../support/proxy.ts'
import { uniqueFleet } from '../support/stores.ts'

let database: TestDatabase
const globals = Object.getOwnPropertyDescriptors({ Request, Response })
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(async () => {
  Object.defineProperties(globalThis, globals) // the server has put its own in their place
  await database.drop()
})

async function start(graceMs: number, databaseUrl = database.url) {
  const events = new RecordedEvents()
  const config = parseConfig({ PORT: '0', SANDMAN_FLEET: uniqueFleet(), SANDMAN_GRACE: `${graceMs}ms` })
  const web = await startWeb({ ...config, databaseUrl }, events)
  return { ...web, port: Number(new URL(web.url).port) }
}

/** What is sent is the beginning of a request; the rest never comes. */
async function beginRequest(port: number): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write('POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 10\r\n\r\nx')
  return socket
}

test('a request that never ends is cut before the grace period is over', async () => {
  const web = await start(2_500)
  const socket = await beginRequest(web.port)
  const closed = once(socket, 'close')
  const began = performance.now()
  await web.stop()
  await closed
  expect(performance.now() - began).toBeLessThan(2_500)
})

test('a database that is silent does not keep a process longer than its grace period', async () => {
  const graceMs = 5_000
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const web = await start(graceMs, proxy.url)
  proxy.hang()
  const unanswered = fetch(`${web.url}/v1/sandboxes`).catch(() => {})
  await proxy.swallowed() // so it is under way
  const began = performance.now()
  await web.stop()
  expect(performance.now() - began).toBeLessThan(graceMs)
  await unanswered
})

test('who waits when the process stops is answered at once, with what was accepted', async () => {
  const web = await start(60_000)
  const ask = (path: string, init: RequestInit = {}) => fetch(`${web.url}${path}`, init)
  const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"backend":"local"}' }
  // There is no worker, so nothing comes of it.
  const waiting = ask('/v1/sandboxes?wait=60s', asked)
  const list = async () => ((await (await ask('/v1/sandboxes')).json()) as { items: unknown[] }).items
  await expect.poll(list).toHaveLength(1)
  await web.stop()
  const answer = await waiting
  expect(answer.status).toBe(202)
  expect(await answer.json()).toMatchObject({ operation: { kind: 'spawn', status: 'active' } })
})

test('a stream ends in order when the process stops, at once', async () => {
  const web = await start(60_000)
  const answer = await fetch(`${web.url}/live`)
  expect(answer.headers.get('content-type')).toContain('text/event-stream')
  const began = performance.now()
  // A connection that was cut would be an error here; one that is kept for the next question holds up nobody.
  await Promise.all([web.stop(), answer.text()])
  expect(performance.now() - began).toBeLessThan(3_000)
})

test('a connection that nobody uses holds nothing up', async () => {
  const web = await start(60_000)
  const socket = net.connect(web.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*connection: keep-alive\r\n/i)
  const closed = once(socket, 'close')
  await web.stop()
  await closed
})
