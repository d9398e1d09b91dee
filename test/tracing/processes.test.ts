import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CollectedSpan, startCollector } from '../support/collector.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { uniqueFleet } from '../support/stores.ts'
import { CALLER, TRACEPARENT } from './setup.ts'

describe('a process whose environment asks for traces', () => {
  let collector: Awaited<ReturnType<typeof startCollector>>
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
        if (name === '@opentelemetry/sdk-node') throw Object.assign(new Error('no ' + name), { code: 'ERR_MODULE_NOT_FOUND' })
        return next(name, context)
      } })`
    const web = start({
      OTEL_TRACES_EXPORTER: 'otlp',
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hide)}`,
    })
    expect(await web.exited).toEqual({ code: 1, signal: null })
    expect(web.output).toMatch(/^sandman: The environment asks for traces .* npm install @opentelemetry\/sdk-node.*\n$/)
  })
})
