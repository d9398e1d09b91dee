import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { createLogger, logEvents } from '../../src/logger.ts'
import { BODY_BYTES_MAX } from '../../src/web/body-limit.ts'
import type { Routes } from '../../src/web/routes.ts'
import { bearer, SECRETS, TOKENS, useFleet } from './setup.ts'

const { open } = useFleet()

const OURS =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

describe('every answer', () => {
  test('forbids what a page does not need, and is not kept by anybody', async () => {
    const { ask } = open({ tokens: TOKENS })
    for (const [path, status] of [
      ['/healthz', 200],
      ['/login', 200],
      ['/v1', 401],
      ['/nowhere', 401],
    ] as const) {
      const answer = await ask(path)
      expect(answer.status).toBe(status)
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'content-security-policy': OURS,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'x-frame-options': 'DENY',
        'cache-control': 'no-store',
      })
      expect(answer.headers.has('strict-transport-security')).toBe(false)
      expect(answer.headers.has('access-control-allow-origin')).toBe(false)
    }
  })

  test('of Bull Board may have styles inside, and nothing from another company', async () => {
    const { ask } = open()
    const board = await ask('/queues')
    const policy = board.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("style-src 'self' 'unsafe-inline'")
    expect(policy).toContain("script-src 'self'; ")
    expect(policy).toContain("base-uri 'self'")
    expect(policy).not.toMatch(/https?:|unsafe-eval|\*/)
    const page = await board.text()
    expect(page).toContain('<div id="root">')
    expect(page).not.toMatch(/(href|src)="https?:/)
    expect(page).not.toMatch(/<script(?![^>]*( src="static\/|type="application\/json"))/)
    const [script] = /static\/js\/main[^"]+/.exec(page) ?? []
    expect((await ask(`/queues/${script}`)).headers.get('cache-control')).toBe('private, max-age=86400')
    expect((await ask('/queues/api/queues')).headers.get('cache-control')).toBe('no-store')
  })

  test('has an id: the one that the caller gave, if it is one, or a new one; and so have a problem and every log line', async () => {
    const events = new Events()
    const lines = new PassThrough({ encoding: 'utf8' })
    logEvents(events, createLogger({ level: 'debug', fields: {}, redact: (line) => line, destination: lines }))
    const { ask } = open({ tokens: TOKENS, events }, (routes) => {
      routes.add('GET', '/broken/:id', 'read', async () => {
        await new Promise(setImmediate)
        throw new Error('a bug')
      })
    })
    const reader = bearer(SECRETS.read).headers
    const given = await ask('/broken/7', { headers: { ...reader, 'x-request-id': 'Trace_1.2-3' } })
    expect(given.status).toBe(500)
    expect(given.headers.get('x-request-id')).toBe('Trace_1.2-3')
    expect(await given.json()).toMatchObject({ error_type: 'internal', request_id: 'Trace_1.2-3' })
    const logged = (lines.read() as string)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(logged).toMatchObject([
      {
        level: 'error',
        event: 'request.failed',
        requestId: 'Trace_1.2-3',
        path: '/broken/7',
        err: { message: 'a bug' },
      },
      {
        level: 'debug',
        event: 'request.answered',
        requestId: 'Trace_1.2-3',
        method: 'GET',
        route: '/broken/:id',
        status: 500,
        caller: 'rita',
        durationMs: expect.any(Number),
      },
    ])
    for (const strange of ['', 'a b', '"', 'x'.repeat(129), '<script>']) {
      const answer = await ask('/nowhere', { headers: { 'x-request-id': strange } })
      const made = answer.headers.get('x-request-id')
      expect(made).toMatch(/^[0-9a-f-]{36}$/)
      expect(await answer.json()).toMatchObject({ error_type: 'unauthorized', request_id: made })
    }
  })
})

describe('what is too much', () => {
  const echo = (routes: Routes) =>
    routes.add('POST', '/echo', 'operate', async (c) => c.json({ bytes: (await c.req.arrayBuffer()).byteLength }))

  /** A body that does not say how long it is, and never ends. */
  function endless() {
    let sent = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536
        controller.enqueue(new Uint8Array(65_536))
      },
    })
    return { init: { method: 'POST', body, duplex: 'half' } as RequestInit, sent: () => sent }
  }

  test('is a body larger than the largest, with or without a length', async () => {
    const { ask } = open({}, echo)
    const exact = { method: 'POST', body: new Uint8Array(BODY_BYTES_MAX) }
    expect(await (await ask('/echo', exact)).json()).toEqual({ bytes: BODY_BYTES_MAX })
    const stream = endless()
    const said = { method: 'POST', body: 'x', headers: { 'content-length': String(BODY_BYTES_MAX + 1) } }
    for (const init of [said, stream.init as typeof said]) {
      const answer = await ask('/echo', init)
      expect(answer.status).toBe(413)
      expect(await answer.json()).toMatchObject({ error_type: 'body_too_large', retryable: false })
    }
    expect(stream.sent()).toBeLessThan(BODY_BYTES_MAX + 4 * 65_536)
  })

  test('is nothing that is read from somebody who may not come in', async () => {
    const { ask } = open({ tokens: TOKENS }, echo)
    const stream = endless()
    expect((await ask('/echo', stream.init as { method: string })).status).toBe(401)
    expect(stream.sent()).toBeLessThanOrEqual(65_536)
  })

  test('is an answer that does not come: 503, unless the caller is willing to wait or the route takes longer', async () => {
    const late = () => new Promise<Response>((resolve) => setTimeout(() => resolve(new Response('late')), 100))
    const { ask } = open({ answerMs: 10 }, (routes) => {
      routes.add('GET', '/late', 'read', late)
      routes.add('GET', '/sweep', 'read', late, { withinMs: 30_000 })
    })
    const given = await ask('/late')
    expect(given.status).toBe(503)
    expect(given.headers.get('retry-after')).toBe('5')
    expect(given.headers.get('content-security-policy')).toBe(OURS)
    expect(await given.json()).toMatchObject({ error_type: 'deadline_exceeded', retryable: true })
    expect((await ask('/late?wait=30s')).status).toBe(200)
    expect((await ask('/late?wait=99999d')).status).toBe(200)
    expect((await ask('/late?wait=soon')).status).toBe(503)
    expect((await ask('/sweep')).status).toBe(200)
  })
})
