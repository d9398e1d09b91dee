import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createWorld, type World } from '../../support/world.ts'
import { siteOf } from './setup.ts'

let world: World
let site: ReturnType<typeof siteOf>
beforeAll(async () => {
  world = await createWorld('postgres')
  await world.startWorker()
  site = siteOf(world.fleet)
})
afterEach(async () => {
  world.provider.becomeHonest()
  await world.expectInvariants()
})
afterAll(() => world.end())

const unknown = {
  sandbox: `sbx_${'0'.repeat(26)}`,
  operation: `op_${'0'.repeat(26)}`,
  execution: `exe_${'0'.repeat(26)}`,
}

async function running(asked: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await site.post('/v1/sandboxes?wait=30s', { body: { backend: 'test', ...asked } })
  expect(status).toBe(200)
  return body.sandbox.id
}

test('a sandbox lives its life over HTTP', async () => {
  const made = await site.post('/v1/sandboxes?wait=30s', {
    body: {
      backend: 'test',
      agent: { command: ['agent'], env: { someName: 'as it is' } },
      metadata: { userName: 'u1', nested: { someKey: [1, 'two', null] } },
      ttl: { idle: '15m', hard: '24h', retention: '90s', if_unsupported: 'kill' },
      agent_thread_id: 'thread-1',
    },
  })
  expect(made.status).toBe(200)
  const { operation, sandbox } = made.body
  expect(operation).toMatchObject({ kind: 'spawn', status: 'succeeded', outcome: 'done', error: null })
  expect(sandbox).toMatchObject({
    id: operation.sandbox_id,
    fleet: world.fleet.name,
    state: 'running',
    gone_reason: null,
    checkpoint: null,
    agent_thread_id: 'thread-1',
    metadata: { userName: 'u1', nested: { someKey: [1, 'two', null] } },
    ttl: { idle: '15m', hard: '24h', retention: '90s', if_unsupported: 'kill' },
    operation: null,
  })
  expect(new Date(sandbox.created_at).toISOString()).toBe(sandbox.created_at)
  const at = `/v1/sandboxes/${sandbox.id}`

  const paused = await site.post(`${at}/pause?wait=30s`)
  expect(paused.body.sandbox).toMatchObject({ state: 'suspended', checkpoint: { kind: 'pause', status: 'ready' } })
  expect(paused.body.operation.checkpoint).toBe(paused.body.sandbox.checkpoint.id)
  const resumed = await site.post(`${at}/resume?wait=30s`, { body: { if_lost: 'respawn', skip_hooks: true } })
  expect(resumed.body).toMatchObject({ operation: { outcome: 'done' }, sandbox: { state: 'running' } })
  const copied = await site.post(`${at}/snapshot?wait=30s`, { body: { name: 'before-lunch' } })
  const checkpoints = (await site.get(`${at}/checkpoints`)).body.items
  expect(checkpoints).toContainEqual(
    expect.objectContaining({ id: copied.body.operation.checkpoint, kind: 'snapshot', name: 'before-lunch' }),
  )
  const touched = await site.post(`${at}/touch`)
  expect(touched.body.last_active_at > sandbox.last_active_at).toBe(true)

  const ran = await site.post(`${at}/executions`, { body: { command: ['work'], deadline: '1h', output_bytes_max: 10 } })
  expect(ran.status).toBe(202)
  expect(ran.body.execution).toMatchObject({ status: 'queued', command: ['work'], sandbox_id: sandbox.id })
  const execution = `/v1/executions/${ran.body.execution.id}`
  expect((await site.get(execution)).body.execution.id).toBe(ran.body.execution.id)
  expect((await site.get(`${at}/executions`)).body.items).toHaveLength(1)
  expect((await site.get(`/v1/executions?sandbox_id=${sandbox.id}&status=succeeded`)).body.items).toEqual([])
  const cancelled = await site.post(`${execution}/cancel?wait=30s`)
  expect(cancelled).toMatchObject({ status: 200, body: { execution: { status: 'cancelled', reason: 'cancelled' } } })

  const destroyed = await site.post(`${at}/destroy?wait=30s`)
  expect(destroyed.body.sandbox).toMatchObject({ state: 'gone', gone_reason: 'destroyed' })
  const asked = (await site.get(`${at}/operations`)).body.items.map(({ kind }: { kind: string }) => kind)
  expect(asked).toEqual(['destroy', 'snapshot', 'resume', 'pause', 'spawn'])
  expect((await site.get(at)).body).toEqual(destroyed.body.sandbox)
  const { items } = (await site.get(`${at}/events?limit=500`)).body
  expect(items[0]).toMatchObject({ type: 'spawn_began', from: null, to: 'provisioning', operation_id: operation.id })
  const why = (await site.get(`${at}/why`)).body
  expect(why).toMatchObject({ sandbox_id: sandbox.id, is_complete: true })
  expect(why.answer).toContain('gone')
})

describe('what is asked for', () => {
  test('is accepted at once, says where to look, and is read from there until it has settled', async () => {
    const id = await running()
    const held = world.provider.holdAt('suspend')
    const accepted = await site.post(`/v1/sandboxes/${id}/pause`)
    expect(accepted.status).toBe(202)
    const { operation, sandbox } = accepted.body
    expect(sandbox).toMatchObject({ state: 'pausing', operation: operation.id })
    const location = new URL(accepted.headers.get('location') as string, `http://x/mounted/v1/sandboxes/${id}/pause`)
    expect(location.pathname).toBe(`/mounted/v1/operations/${operation.id}`)
    const early = await site.get(`/v1/operations/${operation.id}?wait=1ms`)
    expect(early).toMatchObject({ status: 200, body: { operation: { settled_at: null } } })
    const joined = await site.post(`/v1/sandboxes/${id}/pause?wait=1ms`)
    expect(joined).toMatchObject({ status: 202, body: { operation: { id: operation.id } } })
    held.open()
    const settled = await site.get(`/v1/operations/${operation.id}?wait=30s`)
    expect(settled.body.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
  })

  test('of a sandbox that is made says where to look, too', async () => {
    const made = await site.post('/v1/sandboxes', { body: { backend: 'test' } })
    const { operation, sandbox } = made.body
    const location = new URL(made.headers.get('location') as string, 'http://x/v1/sandboxes')
    expect(location.pathname).toBe(`/v1/operations/${operation.id}`)
    const ran = await site.post(`/v1/sandboxes/${sandbox.id}/executions`, { body: { command: ['work'] } })
    const where = new URL(ran.headers.get('location') as string, `http://x/v1/sandboxes/${sandbox.id}/executions`)
    expect(where.pathname).toBe(`/v1/executions/${ran.body.execution.id}`)
    const cancelled = await site.post(`${where.pathname}/cancel?wait=30s`)
    expect(cancelled.body.execution.status).toBe('cancelled')
  })

  test('with a key is asked for once, however often it is sent, and is refused for anything else', async () => {
    const id = await running()
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const first = await site.post(`/v1/sandboxes/${id}/pause?wait=30s`, { headers, body: { if_busy: 'interrupt' } })
    await site.post(`/v1/sandboxes/${id}/resume?wait=30s`)
    const again = await site.post(`/v1/sandboxes/${id}/pause?wait=30s`, { headers, body: { if_busy: 'interrupt' } })
    expect(again).toMatchObject({ status: 200, body: { operation: first.body.operation } })
    expect(again.body.sandbox.state).toBe('running')
    const other = await site.post(`/v1/sandboxes/${id}/pause`, { headers })
    expect(other).toMatchObject({ status: 409, body: { error_type: 'idempotency_key_reused', retryable: false } })
    const execution = await site.post(`/v1/sandboxes/${id}/executions`, { headers, body: { command: ['x'] } })
    expect(execution.body.error_type).toBe('idempotency_key_reused')
    const spawned = await site.post('/v1/sandboxes', { headers, body: { backend: 'test' } })
    expect(spawned.status).toBe(409)
    const long = await site.post('/v1/sandboxes', {
      headers: { 'idempotency-key': 'x'.repeat(256) },
      body: { backend: 'test' },
    })
    expect(long).toMatchObject({ status: 422, body: { errors: [{ field: 'Idempotency-Key' }] } })
  })

  test('takes over an instance that exists, and says where it is', async () => {
    const { ref } = world.provider.putInstance()
    const adopted = await site.post('/v1/sandboxes?wait=30s', {
      body: { backend: 'test', adopt: ref, state: 'running', metadata: { from: 'elsewhere' } },
    })
    expect(adopted).toMatchObject({ status: 200, body: { sandbox: { provider_ref: ref, state: 'running' } } })
    const both = await site.post('/v1/sandboxes', {
      body: { backend: 'test', adopt: ref, from: `ckpt_${'0'.repeat(26)}` },
    })
    expect(both.body.errors).toEqual([{ field: 'from', message: 'there is no such field' }])
  })

  test('what is wrong with a request is said in words, by the names that it was written with', async () => {
    const body = { metadata: [] }
    expect((await site.post('/v1/sandboxes', { body })).body.errors).toEqual([
      { field: 'backend', message: 'is missing' },
      expect.objectContaining({ field: 'metadata' }),
    ])
    expect((await site.get('/v1/sandboxes?limit=many')).body.errors).toEqual([
      { field: 'limit', message: 'must be a number' },
    ])
    expect((await site.get('/v1/sandboxes?limit=0')).body.errors).toEqual([
      { field: 'limit', message: 'must be at least 1' },
    ])
    expect((await site.get('/v1/sandboxes?state=asleep')).body.errors).toEqual([
      { field: 'state', message: expect.stringContaining('must be one of ') },
    ])
  })
})

describe('what fails is a problem', () => {
  test.each([
    ['sandbox_unreachable', 503],
    ['provider_unauthorized', 502],
    ['quota_exceeded', 503],
    ['rate_limited', 429],
  ] as const)('%s is %i, with the operation, and leaves it suspended', async (type, status) => {
    const { id } = await world.suspended()
    world.provider.always('resume', { kind: 'error', type, message: 'so says the provider' })
    const failed = await site.post(`/v1/sandboxes/${id}/resume?wait=30s`)
    expect(failed).toMatchObject({
      status,
      body: { error_type: type, retryable: true, operation: { kind: 'resume', status: 'failed', sandbox_id: id } },
    })
    expect(failed.headers.get('retry-after')).toBe(status === 502 ? null : '5')
    const read = await site.get(`/v1/operations/${failed.body.operation.id}`)
    expect(read).toMatchObject({
      status: 200,
      body: { operation: failed.body.operation, sandbox: { state: 'suspended' } },
    })
  })

  test('one that its provider has lost is gone for good, and the next request is told so', async () => {
    const { id, checkpoint } = await world.suspended()
    world.provider.checkpoints.clear()
    const lost = await site.post(`/v1/sandboxes/${id}/resume?wait=30s`)
    expect(lost).toMatchObject({
      status: 410,
      body: { error_type: 'checkpoint_missing', checkpoint_id: checkpoint?.id, retryable: false },
    })
    for (const verb of ['pause', 'resume', 'snapshot']) {
      const refused = await site.post(`/v1/sandboxes/${id}/${verb}`)
      expect(refused).toMatchObject({
        status: 410,
        body: { error_type: 'sandbox_gone', operation: { status: 'refused', kind: verb } },
      })
    }
    expect((await site.post(`/v1/sandboxes/${id}/kill`)).body.operation).toMatchObject({ outcome: 'already_done' })
    const execution = await site.post(`/v1/sandboxes/${id}/executions`, { body: { command: ['x'] } })
    expect(execution).toMatchObject({ status: 410, body: { error_type: 'sandbox_gone' } })
    const respawned = await site.post(`/v1/sandboxes/${id}/resume?wait=30s`, { body: { if_lost: 'respawn' } })
    expect(respawned).toMatchObject({ status: 200, body: { operation: { outcome: 'respawned' } } })
  })

  test('what is refused is a conflict: nothing is asked of the sandbox', async () => {
    const plain = await running({ backend: 'plain' })
    expect(await site.post(`/v1/sandboxes/${plain}/pause`)).toMatchObject({
      status: 409,
      body: { error_type: 'pause_unsupported', operation: { status: 'refused' } },
    })
    expect(await site.post(`/v1/sandboxes/${plain}/snapshot`)).toMatchObject({
      status: 409,
      body: { error_type: 'snapshot_unsupported' },
    })
    const killed = await site.post(`/v1/sandboxes/${plain}/pause?wait=30s`, { body: { if_unsupported: 'kill' } })
    expect(killed.body.sandbox).toMatchObject({ state: 'gone', gone_reason: 'pause_unsupported' })
    const { id } = await world.suspended()
    const asleep = await site.post(`/v1/sandboxes/${id}/executions`, {
      body: { command: ['x'], if_suspended: 'refuse' },
    })
    expect(asleep).toMatchObject({ status: 409, body: { error_type: 'sandbox_suspended' } })
  })

  test('a sandbox that cannot be made is a mistake of the request, or of what it begins as', async () => {
    world.provider.next('create', { kind: 'error', type: 'spec_invalid', message: 'no such template' })
    const invalid = await site.post('/v1/sandboxes?wait=30s', { body: { backend: 'test', template: 'nope' } })
    expect(invalid).toMatchObject({ status: 422, body: { error_type: 'spec_invalid', operation: { kind: 'spawn' } } })
    const from = `ckpt_${'0'.repeat(26)}`
    const missing = await site.post('/v1/sandboxes?wait=30s', { body: { backend: 'test', from } })
    expect(missing).toMatchObject({ status: 410, body: { error_type: 'checkpoint_missing' } })
  })

  test('ids that nothing has are not found', async () => {
    for (const path of ['', '/events', '/operations', '/checkpoints', '/executions', '/why']) {
      const told = await site.get(`/v1/sandboxes/${unknown.sandbox}${path}`)
      expect(told).toMatchObject({ status: 404, body: { error_type: 'sandbox_not_found' } })
    }
    for (const verb of ['pause', 'resume', 'snapshot', 'kill', 'destroy', 'touch', 'executions'])
      expect((await site.post(`/v1/sandboxes/${unknown.sandbox}/${verb}`)).status).toBe(404)
    expect((await site.get(`/v1/operations/${unknown.operation}?wait=1s`)).body.error_type).toBe('operation_not_found')
    for (const path of ['', '/output'])
      expect((await site.get(`/v1/executions/${unknown.execution}${path}`)).body.error_type).toBe('execution_not_found')
    expect((await site.post(`/v1/executions/${unknown.execution}/cancel`)).status).toBe(404)
    expect((await site.get('/v1/naps')).body.error_type).toBe('not_found')
  })

  test('a method that a path does not have says which ones it has', async () => {
    const told = await site.post('/v1/sandboxes', { method: 'DELETE' })
    expect(told).toMatchObject({ status: 405, body: { error_type: 'method_not_allowed' } })
    expect(told.headers.get('allow')).toBe('POST, GET, HEAD')
    const kill = await site.get(`/v1/sandboxes/${unknown.sandbox}/kill`)
    expect(kill.status).toBe(405)
    expect(kill.headers.get('allow')).toBe('POST')
    expect((await site.fetch('/v1/sandboxes', { method: 'HEAD' })).status).toBe(200)
  })

  test('a field that is wrong is named as it was sent, and all of them at once', async () => {
    const { status, body } = await site.post('/v1/sandboxes', {
      body: {
        backend: 5,
        ttl: { idle: 900, hard: '1 hour' },
        wake: { previewPort: 80, preview_port: 0 },
        metadata: { some_key: '\0' },
        agent: { command: [], env: { 'not a name': 'x' } },
        surprise: true,
      },
    })
    expect(status).toBe(422)
    expect(body.error_type).toBe('request_invalid')
    expect(body.errors.map(({ field }: { field: string }) => field).sort()).toEqual([
      'agent.command',
      'agent.env.not a name',
      'backend',
      'metadata',
      'surprise',
      'ttl.hard',
      'ttl.idle',
      'wake.previewPort',
      'wake.preview_port',
    ])
    const unknownBackend = await site.post('/v1/sandboxes', { body: { backend: 'nowhere' } })
    expect(unknownBackend).toMatchObject({
      status: 422,
      body: { error_type: 'backend_unknown', errors: [{ field: 'backend' }] },
    })
  })
})

describe('a list', () => {
  test('comes in pages, each with where the next one is', async () => {
    const metadata = { batch: 'paged' }
    const ids: string[] = []
    for (let nth = 0; nth < 5; nth++) ids.unshift((await world.fleet.spawn({ backend: 'plain', metadata })).sandbox.id)
    const seen: string[] = []
    let at: string | null = '/v1/sandboxes?backend=plain&limit=2'
    let cursor: string | null = null
    while (at !== null && seen.length < 5) {
      const page = await site.get(at)
      seen.push(...page.body.items.map(({ id }: { id: string }) => id))
      const [, next = null] = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '') ?? []
      cursor = page.body.next_cursor
      at = next && new URL(next, `http://x${at}`).href.replace('http://x', '')
      expect(at === null).toBe(cursor === null)
      if (at !== null) expect(new URL(at, 'http://x').searchParams.get('cursor')).toBe(cursor)
    }
    expect(seen.slice(0, 5)).toEqual(ids)
  })

  test('filters, and says what it cannot filter by', async () => {
    const { id } = await world.suspended()
    const asleep = await site.get('/v1/sandboxes?state=suspended&limit=1')
    expect(asleep.body.items[0].id).toBe(id)
    for (const [query, field] of [
      ['state=asleep', 'state'],
      ['limit=0', 'limit'],
      ['limit=ten', 'limit'],
      ['limit=1e1', 'limit'],
      ['cursor=abc', 'cursor'],
      ['backend=', 'backend'],
      ['colour=blue', 'colour'],
      ['limit=1&limit=2', 'limit'],
      ['__proto__=1', '__proto__'],
      ['metadata.__proto__=x', 'metadata'],
    ]) {
      const told = await site.get(`/v1/sandboxes?${query}`)
      expect(told, query).toMatchObject({ status: 422, body: { errors: [{ field }] } })
    }
  })
})

test('a sweep is asked for by the body, and bounded by the query', async () => {
  const report = await site.post('/v1/sweep?wait=0s', { body: { dry_run: true, backend: 'test' } })
  expect(report).toMatchObject({ status: 200, body: { unanswered: ['test'], findings: [], is_cut: false } })
  const both = await site.post('/v1/sweep?wait=0s', { body: { dry_run: true, believe: true } })
  expect(both).toMatchObject({ status: 422, body: { errors: [{ field: 'believe' }] } })
})

test('the front door says where everything else is', async () => {
  const { body } = await site.get('/v1')
  expect(body).toMatchObject({ name: 'sandman', fleet: world.fleet.name })
  for (const link of [body.links.sandboxes, body.links.openapi, body.links.reference])
    expect((await site.fetch(new URL(link, 'http://x/v1').pathname)).status, link).toBe(200)
})
