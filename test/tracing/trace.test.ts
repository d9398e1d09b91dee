import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { reaperQueue } from '../../src/queues/reaper.ts'
import { inSpan, isTracing } from '../../src/tracing.ts'
import { createApp } from '../../src/web/app.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld, type World } from '../support/world.ts'
import { CALLER, TRACEPARENT, useOpenTelemetry } from './setup.ts'

test('costs nothing but a look when nobody collects: no span, and no trace in a job', async () => {
  expect(isTracing()).toBe(false)
  const work = Promise.resolve('done')
  expect(inSpan('anything', {}, () => work)).toBe(work)
})

describe('an app that brings OpenTelemetry along', () => {
  const { spans, bodies, until } = useOpenTelemetry()

  describeStores('sees', (kind) => {
    let world: World
    let url: string
    let close: () => Promise<unknown>

    beforeAll(async () => {
      world = await createWorld(kind)
      await world.startWorker()
      const app = createApp(world.fleet)
      const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false })
      await new Promise((resolve) => server.once('listening', resolve))
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      close = () => new Promise((resolve) => server.close(resolve))
    })
    afterAll(async () => {
      await close()
      await world.end()
    })

    test('one trace from the caller through the request and the job to the provider', async () => {
      const secret = 'a-secret-of-the-agent'
      const { id } = await world.running({ agent: { command: ['sh', '-c', `echo ${secret}`], env: { KEY: secret } } })
      const headers = { ...TRACEPARENT, baggage: `key=${secret}`, 'x-request-id': 'r-1' }
      const answer = await fetch(`${url}/v1/sandboxes/${id}/pause?wait=30s`, { method: 'POST', headers })
      const { operation } = (await answer.json()) as { operation: { id: string; status: string } }
      expect(operation.status).toBe('succeeded')

      const suspend = await until(
        ({ name, attributes }) => name === 'test suspend' && attributes['sandman.sandbox_id'] === id,
      )
      const processed = await until(({ spanId }) => spanId === suspend.parentSpanId)
      const added = await until(({ spanId }) => spanId === processed.parentSpanId)
      const asked = await until(({ spanId }) => spanId === added.parentSpanId)
      const request = await until(({ spanId }) => spanId === asked.parentSpanId)
      const fleet = world.fleet.name
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
      const jobs = await (await world.eye.all()).find(({ name }) => name === 'pause')?.queue.getCompleted()
      const carried = jobs?.map(({ opts }) => JSON.parse(opts.telemetry?.metadata ?? '{}'))
      expect(carried).toEqual([{ traceparent: `00-${CALLER.traceId}-${added.spanId}-01` }])
      // Nothing else is told, neither of what BullMQ does by itself nor of what somebody has written.
      const names = new Set(spans.filter(({ name }) => name.includes(fleet)).map(({ name }) => name.split(' ')[0]))
      expect([...names].toSorted()).toEqual(['add', 'process'])
      expect(bodies.filter((body) => body.includes(secret))).toEqual([])
    })

    test('each tick of a schedule as a trace of its own, or there would be one that never ends', async () => {
      await inSpan('the start of a worker', {}, () => world.startWorker({ queues: ['reaper'] }))
      const tick = { payload: {}, name: `process ${world.fleet.name}.reaper` }
      await inSpan('whatever makes the next tick', {}, () => world.eye.ring(reaperQueue, tick.payload))
      const ticked = await until(({ name }) => name === tick.name)
      expect(ticked.parentSpanId).toBeUndefined()
      const made = await until(({ name }) => name === 'whatever makes the next tick')
      expect(made.traceId).not.toBe(ticked.traceId)
      expect(spans.filter(({ name }) => name.startsWith(`add ${world.fleet.name}.reaper`))).toEqual([])
    })

    test('what kind of error a provider made, and not what it wrote', async () => {
      const { id } = await world.running()
      world.provider.next('suspend', { kind: 'error', type: 'quota_exceeded', message: 'of account secret-7' })
      const { operation } = await world.fleet.pause(id, { wait: '30s' })
      expect(operation.status).toBe('failed')
      const failed = await until(({ isFailed, attributes }) => isFailed && attributes['sandman.sandbox_id'] === id)
      expect(failed).toMatchObject({ name: 'test suspend', attributes: { 'error.type': 'quota_exceeded' } })
      expect(bodies.filter((body) => body.includes('secret-7'))).toEqual([])
    })
  })
})
