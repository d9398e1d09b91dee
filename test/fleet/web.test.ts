import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { startWeb } from '../../src/fleet/web.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { uniqueFleet } from '../support/stores.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

async function start(graceMs: number) {
  const events = new RecordedEvents()
  const config = parseConfig({ PORT: '0', SANDMAN_FLEET: uniqueFleet(), SANDMAN_GRACE: `${graceMs}ms` })
  const web = await startWeb({ ...config, databaseUrl: database.url }, events)
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
