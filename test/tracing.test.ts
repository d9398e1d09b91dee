import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { context, propagation, trace } from '@opentelemetry/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { reaperQueue } from '../src/queues/reaper.ts'
import { inSpan, isTracing } from '../src/tracing.ts'
import { createApp } from '../src/web/app.ts'
import { type CollectedSpan, startCollector } from './support/collector.ts'
import { createDatabase, type TestDatabase } from './support/database.ts'
import { SandmanProcess } from './support/sandman.ts'
import { describeStores, type StoreKind, uniqueFleet } from './support/stores.ts'
import { createWorld, type World } from './support/world.ts'

type Collector = Awaited<ReturnType<typeof startCollector>>

const CALLER = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) }
const TRACEPARENT = { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01` }

test('costs nothing but a look when nobody collects: no span, and no trace in a job', async () => {
  expect(isTracing()).toBe(false)
  const work = Promise.resolve('done')
  expect(inSpan('anything', {}, () => work)).toBe(work)
})

/** A whole fleet, and its API. */
function useSite(kind: StoreKind) {
  const site = {} as { world: World; url: string; close(): Promise<unknown> }
  beforeAll(async () => {
    const world = await createWorld(kind)
    await world.startWorker()
    const app = createApp(world.fleet)
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false })
    await new Promise((resolve) => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    Object.assign(site, { world, url, close: () => new Promise((resolve) => server.close(resolve)) })
  })
  afterAll(async () => {
    await site.close()
    await site.world.end()
  })
  return site
}

describe('an app that brings OpenTelemetry along', () => {
  let collector: Collector
  let sdk: { shutdown(): Promise<void> }

  beforeAll(async () => {
    collector = await startCollector()
    const { NodeSDK } = await import('@opentelemetry/sdk-node')
    const settings = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    }
    Object.assign(process.env, settings)
    const started = new NodeSDK({ serviceName: 'an-app', metricReaders: [], logRecordProcessors: [] })
    started.start()
    sdk = started
    for (const name of Object.keys(settings)) delete process.env[name]
  })
  afterAll(async () => {
    await sdk.shutdown()
    for (const each of [trace, context, propagation]) each.disable()
    await collector.stop()
  })

  describeStores('sees', (kind) => {
    const site = useSite(kind)

    test('one trace from the caller through the request and the job to the provider', async () => {
      const secret = 'a-secret-of-the-agent'
      const { id } = await site.world.running({
        agent: { command: ['sh', '-c', `echo ${secret}`], env: { KEY: secret } },
      })
      const headers = { ...TRACEPARENT, baggage: `key=${secret}`, 'x-request-id': 'r-1' }
      const answer = await fetch(`${site.url}/v1/sandboxes/${id}/pause?wait=30s`, { method: 'POST', headers })
      const { operation } = (await answer.json()) as { operation: { id: string; status: string } }
      expect(operation.status).toBe('succeeded')

      const suspend = await collector.until(
        ({ name, attributes }) => name === 'test suspend' && attributes['sandman.sandbox_id'] === id,
      )
      const processed = await collector.until(({ spanId }) => spanId === suspend.parentSpanId)
      const added = await collector.until(({ spanId }) => spanId === processed.parentSpanId)
      const asked = await collector.until(({ spanId }) => spanId === added.parentSpanId)
      const request = await collector.until(({ spanId }) => spanId === asked.parentSpanId)
      const fleet = site.world.fleet.name
      expect([request, asked, added, processed, suspend].map(({ name, kind }) => ({ name, kind }))).toEqual([
        { name: 'POST /v1/sandboxes/:id/pause', kind: 2 },
        { name: 'fleet pause', kind: 1 },
        { name: `add ${fleet}.pause.pause`, kind: 4 },
        { name: `process ${fleet}.pause`, kind: 5 },
        { name: 'test suspend', kind: 3 },
      ])
      expect(request).toMatchObject({ ...CALLER, spanId: request.spanId, parentSpanId: CALLER.spanId, isFailed: false })
      expect(request.attributes).toEqual({
        'http.request.method': 'POST',
        'http.route': '/v1/sandboxes/:id/pause',
        'http.response.status_code': 200,
        'sandman.request_id': 'r-1',
        'sandman.caller': 'local',
      })
      expect(asked.attributes).toMatchObject({ 'sandman.sandbox_id': id, 'sandman.operation_id': operation.id })
      expect(processed.attributes).toMatchObject({ 'sandman.operation_id': operation.id })
      expect(suspend.attributes).toEqual({
        'sandman.operation_id': operation.id,
        'sandman.sandbox_id': id,
        'sandman.backend': 'test',
        'sandman.call': 'suspend',
      })
      const jobs = await (await site.world.eye.all()).find(({ name }) => name === 'pause')?.queue.getCompleted()
      const carried = jobs?.map(({ opts }) => JSON.parse(opts.telemetry?.metadata ?? '{}'))
      expect(carried).toEqual([{ traceparent: `00-${CALLER.traceId}-${added.spanId}-01` }])
      // Nothing else is told, neither of what BullMQ does by itself nor of what somebody has written.
      const names = new Set(
        collector.spans.filter(({ name }) => name.includes(fleet)).map(({ name }) => name.split(' ')[0]),
      )
      expect([...names].toSorted()).toEqual(['add', 'process'])
      expect(collector.bodies.filter((body) => body.includes(secret))).toEqual([])
    })

    test('each tick of a schedule as a trace of its own, or there would be one that never ends', async () => {
      await inSpan('the start of a worker', {}, () => site.world.startWorker({ queues: ['reaper'] }))
      const tick = { payload: {}, name: `process ${site.world.fleet.name}.reaper` }
      await inSpan('whatever makes the next tick', {}, () => site.world.eye.ring(reaperQueue, tick.payload))
      const ticked = await collector.until(({ name }) => name === tick.name)
      expect(ticked.parentSpanId).toBeUndefined()
      const made = await collector.until(({ name }) => name === 'whatever makes the next tick')
      expect(made.traceId).not.toBe(ticked.traceId)
      expect(collector.spans.filter(({ name }) => name.startsWith(`add ${site.world.fleet.name}.reaper`))).toEqual([])
    })

    test('what kind of error a provider made, and not what it wrote', async () => {
      const { id } = await site.world.running()
      site.world.provider.next('suspend', { kind: 'error', type: 'quota_exceeded', message: 'of account secret-7' })
      const { operation } = await site.world.fleet.pause(id, { wait: '30s' })
      expect(operation.status).toBe('failed')
      const failed = await collector.until(
        ({ isFailed, attributes }) => isFailed && attributes['sandman.sandbox_id'] === id,
      )
      expect(failed).toMatchObject({ name: 'test suspend', attributes: { 'error.type': 'quota_exceeded' } })
      expect(collector.bodies.filter((body) => body.includes('secret-7'))).toEqual([])
    })
  })
})

describe('a process whose environment asks for traces', () => {
  let collector: Collector
  let database: TestDatabase
  beforeAll(async () => {
    ;[collector, database] = await Promise.all([startCollector(), createDatabase()])
  })
  afterAll(async () => {
    await Promise.all([collector.stop(), database.drop()])
  })

  function start(env: Record<string, string>): SandmanProcess {
    return new SandmanProcess(['web'], {
      env: { DATABASE_URL: database.url, SANDMAN_FLEET: uniqueFleet(), PORT: '0', SANDMAN_GRACE: '5s', ...env },
    })
  }

  test('sends its last ones before it has ended', async () => {
    const web = start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })
    const { url } = await web.logged('process.started')
    await fetch(`${url}/healthz`)
    await fetch(`${url}/v1`, { headers: TRACEPARENT })
    web.kill('SIGTERM')
    expect(await web.exited).toEqual({ code: 0, signal: null })
    expect(collector.spans).toMatchObject([
      { service: 'sandman-web', name: 'GET /v1', traceId: CALLER.traceId, parentSpanId: CALLER.spanId },
    ] satisfies Partial<CollectedSpan>[])
  })

  test('says once that its collector is away, and ends in time all the same', async () => {
    const web = start({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '10',
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
    })
    const { url } = await web.logged('process.started')
    for (let i = 0; i < 3; i++) {
      await fetch(`${url}/v1`)
      await web.logged('tracing.failed')
    }
    expect(web.lines.filter(({ event }) => event === 'tracing.failed')).toHaveLength(1)
    await fetch(`${url}/v1`)
    const began = performance.now()
    web.kill('SIGTERM')
    expect(await web.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - began).toBeLessThan(5_000)
  })

  test('says in one sentence what is missing', async () => {
    const hide = `import { registerHooks } from 'node:module'
      registerHooks({ resolve(name, context, next) {
        if (name === '@opentelemetry/sdk-node') throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' })
        return next(name, context)
      } })`
    const web = start({
      OTEL_TRACES_EXPORTER: 'otlp',
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hide)}`,
    })
    expect(await web.exited).toEqual({ code: 1, signal: null })
    expect(web.output).toMatch(
      /^sandman: Tracing, .* needs the package @opentelemetry\/sdk-node: run npm install @opentelemetry\/sdk-node\.\n$/,
    )
  })
})
