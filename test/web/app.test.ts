import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import type { Token } from '../../src/config-values.ts'
import { createFleet } from '../../src/index.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import { canaryQueue } from '../../src/queues/canary.ts'
import { QUEUE_NAMES } from '../../src/queues/names.ts'
import { createApp } from '../../src/web/app.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { HERE } from '../support/here.ts'
import { type FaultyProxy, startProxy } from '../support/proxy.ts'
import { describeStores, type StoreKind, uniqueFleet } from '../support/stores.ts'

let database: TestDatabase
const closers: (() => Promise<unknown>)[] = []
beforeEach(async () => {
  database = await createDatabase()
})
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  await database.drop()
})

type Site = { get(path: string, init?: RequestInit): Promise<Response>; producer: Producer; events: RecordedEvents }

function startSite(kind: StoreKind, options: { tokens?: Token[]; databaseUrl?: string; redisUrl?: string } = {}): Site {
  const events = new RecordedEvents()
  const databaseUrl = options.databaseUrl ?? database.url
  const redisUrl = kind === 'redis' ? (options.redisUrl ?? inject('redisUrl')) : undefined
  const fleet = uniqueFleet()
  const asking = createFleet({ databaseUrl, fleet, ...(redisUrl !== undefined && { redisUrl }) })
  const producer = new Producer(openStore({ redisUrl, databaseUrl, fleet, role: 'producer', events }))
  closers.push(
    () => asking.close(),
    () => producer.close(),
  )
  const app = createApp(asking, { tokens: options.tokens ?? [], events })
  const get = async (path: string, init?: RequestInit) =>
    app.request(`http://127.0.0.1${path}`, { ...init, headers: { host: '127.0.0.1', ...init?.headers } }, HERE)
  return { get, producer, events }
}

describeStores('the site', (kind) => {
  test('is ready when everything it needs is', async () => {
    const { get } = startSite(kind)
    expect(await (await get('/healthz')).json()).toEqual({ status: 'alive' })
    const ready = await get('/readyz')
    expect(ready.status).toBe(200)
    expect(await ready.json()).toEqual({ status: 'ready', checks: { database: 'ok', queue: 'ok', migrations: 'ok' } })
  })

  test('shows its queues on the front page and in Bull Board, with their jobs', async () => {
    const { get, producer } = startSite(kind)
    await producer.ring(canaryQueue, { canaryId: crypto.randomUUID() })
    const front = await (await get('/')).text()
    expect(front).toMatch(/<span class="badge good ">.*ready/)
    expect(front).toMatch(/canary<\/th>\s*<td class="number ">1</)

    const board = await get('/queues')
    expect(board.status).toBe(200)
    const page = await board.text()
    const script = /<script[^>]* src="([^"]+\.js)"/.exec(page)?.[1] as string
    const asset = await get(new URL(script, 'http://127.0.0.1/queues/').pathname)
    expect(asset.status).toBe(200)
    expect(asset.headers.get('content-type')).toContain('javascript')
    const { queues } = (await (await get('/queues/api/queues')).json()) as {
      queues: { displayName: string; counts: Record<string, number> }[]
    }
    expect(queues.map(({ displayName }) => displayName)).toEqual([...QUEUE_NAMES])
    expect(queues[0]).toMatchObject({ displayName: 'canary', counts: { waiting: 1 } })
  })

  test('asks Bull Board for nothing that makes no sense, and tells nobody how it failed', async () => {
    const { get, events } = startSite(kind)
    for (const [query, field] of [
      ['status=%00', 'status'],
      [`status=${'x'.repeat(33)}`, 'status'],
      ['activeQueue=%25', 'activeQueue'],
      ['page=0', 'page'],
      ['page=1e3', 'page'],
      ['page=10001', 'page'],
      ['jobsPerPage=101', 'jobsPerPage'],
      ['jobsPerPage=9007199254740991', 'jobsPerPage'],
    ]) {
      const told = await get(`/queues/api/queues?${query}`)
      expect(told.status, query).toBe(422)
      expect(await told.json()).toMatchObject({ error_type: 'request_invalid', errors: [{ field }] })
    }
    const { queues } = (await (await get('/queues/api/queues')).json()) as { queues: { name: string }[] }
    const most = `activeQueue=${queues[1]?.name}&status=waiting-children&page=10000&jobsPerPage=100`
    expect((await get(`/queues/api/queues?${most}`)).status).toBe(200)
    expect((await get('/queues/api/queues?activeQueue=&status=&page=&jobsPerPage=')).status).toBe(200)
    for (const jobId of ['%00', 'a%00b', '%2500'])
      expect((await get(`/queues/api/queues/${queues[0]?.name}/${jobId}`)).status, jobId).toBe(404)
    expect(events.count('request.failed')).toBe(0)

    const failed = await get('/queues/api/job-schedulers?queueName=%25')
    expect(failed.status).toBe(500)
    expect(failed.headers.get('content-type')).toBe('application/problem+json')
    const body = await failed.text()
    expect(JSON.parse(body)).toMatchObject({ error_type: 'internal' })
    expect(body).not.toContain('URI malformed')
    const { fields } = await events.until('request.failed')
    expect((fields.error as Error).message).toMatch(/^Bull Board answered 500: .*URI malformed/)
  })

  test('lets nobody without the right to operate press Bull Board’s buttons', async () => {
    const secret = { reader: 'reader-reader-reader', operator: 'operator-operator-op' }
    const { get, producer } = startSite(kind, {
      tokens: [
        { name: 'r', scope: 'read', secret: secret.reader },
        { name: 'o', scope: 'operate', secret: secret.operator },
      ],
    })
    await producer.ring(canaryQueue, { canaryId: crypto.randomUUID() })
    const { queues } = (await (await get('/queues/api/queues', bearer(secret.reader))).json()) as {
      queues: { name: string; readOnlyMode: boolean }[]
    }
    expect(queues[0]?.readOnlyMode).toBe(true)
    const empty = (token: string) =>
      get(`/queues/api/queues/${queues[0]?.name}/empty`, { method: 'PUT', ...bearer(token) })
    expect((await empty(secret.reader)).status).toBe(403)
    expect((await get('/queues', { method: 'HEAD', ...bearer(secret.reader) })).status).toBe(200)
    expect((await producer.counts()).canary.waiting).toBe(1)
    expect((await empty(secret.operator)).status).toBe(200)
    expect((await producer.counts()).canary.waiting).toBe(0)
  })
})

describe('what the site says when something is away', () => {
  let proxy: FaultyProxy & { url: string }

  test('the database hangs: alive, not ready, in time', async () => {
    proxy = await startProxy(database.url)
    closers.push(() => proxy.close())
    const { get } = startSite('redis', { databaseUrl: proxy.url })
    expect((await get('/readyz')).status).toBe(200)
    proxy.hang()
    // A look is believed for a moment.
    await expect.poll(async () => (await get('/readyz')).status).toBe(503)
    const response = await get('/readyz')
    expect(await response.json()).toEqual({
      status: 'not_ready',
      checks: { database: 'failing', queue: 'ok', migrations: 'failing' },
    })
    expect((await get('/healthz')).status).toBe(200)
    await proxy.heal()
  })

  test('Redis is down: alive, not ready; the pages say so, and work again when it is back', async () => {
    proxy = await startProxy(inject('redisUrl'))
    closers.push(() => proxy.close())
    await proxy.refuse()
    const { get } = startSite('redis', { redisUrl: proxy.url })
    expect(await (await get('/readyz')).json()).toMatchObject({ checks: { database: 'ok', queue: 'failing' } })
    expect(await (await get('/')).text()).toContain('not ready')
    const board = await get('/queues')
    expect(board.status).toBe(503)
    expect(board.headers.get('retry-after')).toBe('5')
    expect(await board.json()).toMatchObject({ error_type: 'queue_unreachable', retryable: true })
    await proxy.heal()
    await expect.poll(async () => (await get('/queues')).status, { timeout: 20_000 }).toBe(200)
    expect((await get('/queues/')).headers.get('location')).toBe('/queues')
    await proxy.refuse()
    const api = await get('/queues/api/queues')
    expect(api.status).toBe(503)
    expect(await api.json()).toMatchObject({ error_type: 'queue_unreachable', retryable: true })
  })
})

test('however many ask whether it is ready, and whoever they are, it is looked at once', async () => {
  const asking = createFleet({ databaseUrl: database.url, fleet: uniqueFleet() })
  closers.push(() => asking.close())
  let looks = 0
  const health = () => {
    looks++
    return asking.health()
  }
  const app = createApp({ ...asking, health })
  const ask = async () => (await app.request('http://127.0.0.1/readyz')).status
  expect(new Set(await Promise.all(Array.from({ length: 100 }, ask)))).toEqual(new Set([200]))
  expect(looks).toBe(1)
})

test('asking in vain again and again leaves nothing behind in the process', async () => {
  const proxy = await startProxy(inject('redisUrl'))
  closers.push(() => proxy.close())
  await proxy.refuse()
  const warnings: Error[] = []
  const listen = (warning: Error) => warnings.push(warning)
  process.on('warning', listen)
  try {
    const { get } = startSite('redis', { redisUrl: proxy.url })
    await Promise.all(Array.from({ length: 30 }, () => get('/readyz')))
    await new Promise(setImmediate)
    expect(warnings).toEqual([])
  } finally {
    process.off('warning', listen)
  }
})

function bearer(secret: string): RequestInit {
  return { headers: { authorization: `Bearer ${secret}` } }
}
