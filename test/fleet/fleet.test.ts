import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createFleet, type Fleet, type Sandbox } from '../../src/index.ts'
import { RecordedEvents } from '../support/events.ts'
import { startProxy } from '../support/proxy.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld, type World } from '../support/world.ts'

const LONG = { wait: '30s' } as const

const idsOf = (items: { id: string }[]) => items.map(({ id }) => id)

describeStores('a fleet with a worker', (kind) => {
  let world: World
  let fleet: Fleet
  beforeAll(async () => {
    world = await createWorld(kind)
    fleet = world.fleet
    await world.startWorker()
  })
  afterAll(() => world.end())

  test('carries a sandbox through its life, and answers each step when it has settled', async () => {
    const spawned = await fleet.spawn({ backend: 'test', ...LONG })
    expect(spawned.operation).toMatchObject({ kind: 'spawn', status: 'succeeded', outcome: 'done', error: null })
    expect(spawned.sandbox).toMatchObject({ state: 'running', incarnation: '1', operationId: null, checkpoint: null })
    const { id } = spawned.sandbox

    const snapshot = await fleet.snapshot(id, { name: 'v1', ...LONG })
    expect(snapshot).toMatchObject({ operation: { status: 'succeeded' }, sandbox: { state: 'running' } })
    expect(snapshot.operation.checkpointId).toMatch(/^ckpt_/)

    const paused = await fleet.pause(id, LONG)
    expect(paused.sandbox).toMatchObject({ state: 'suspended', checkpoint: { kind: 'pause', status: 'ready' } })
    expect(paused.sandbox.checkpoint?.id).toBe(paused.operation.checkpointId)

    const resumed = await fleet.resume(id, LONG)
    expect(resumed.sandbox).toMatchObject({ state: 'running', incarnation: '2', checkpoint: null })

    const killed = await fleet.kill(id, LONG)
    expect(killed.sandbox).toMatchObject({ state: 'gone', goneReason: 'killed' })
    const copy = await fleet.spawn({ backend: 'test', from: snapshot.operation.checkpointId as string, ...LONG })
    expect(copy.operation.status).toBe('succeeded')
    const destroyed = await fleet.destroy(copy.sandbox.id, LONG)
    expect(destroyed.sandbox).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
    expect(world.provider.instancesOf(id)).toEqual([])
    await world.expectInvariants()
  })

  test('answers with the operation as it is when the wait is over, and loses nothing', async () => {
    const gate = world.provider.holdAt('create')
    const impatient = await fleet.spawn({ backend: 'test', wait: '10ms' })
    expect(impatient.operation).toMatchObject({ status: 'active', settledAt: null })
    expect(impatient.sandbox).toMatchObject({ state: 'provisioning', operationId: impatient.operation.id })
    await gate.entered(1)
    const again = await fleet.operation(impatient.operation.id, { wait: '10ms' })
    expect(again.operation).toMatchObject({ id: impatient.operation.id, status: 'active', attempt: 1 })

    const later = fleet.operation(impatient.operation.id, LONG)
    gate.open()
    expect(await later).toMatchObject({ operation: { status: 'succeeded' }, sandbox: { state: 'running' } })
    await world.expectInvariants()
  })

  test('answers all who ask the same while it is done with the same operation', async () => {
    const { id } = await world.running()
    const gate = world.provider.holdAt('suspend')
    const first = await fleet.pause(id)
    const joined = await Promise.all(Array.from({ length: 3 }, () => fleet.pause(id)))
    const waiting = joined.map(({ operation }) => fleet.operation(operation.id, LONG))
    gate.open()
    const answers = await Promise.all(waiting)
    expect(new Set(answers.map(({ operation }) => operation.id))).toEqual(new Set([first.operation.id]))
    expect(answers.map(({ sandbox }) => sandbox.state)).toEqual(['suspended', 'suspended', 'suspended'])
    await world.expectInvariants()
  })

  test('answers one who stands in line when its turn has come and gone', async () => {
    const { id } = await world.running()
    const gate = world.provider.holdAt('suspend')
    await fleet.pause(id)
    await gate.entered(1)
    const behind = await fleet.resume(id)
    expect(behind.operation).toMatchObject({ status: 'waiting', startedAt: null })
    expect(behind.sandbox.state).toBe('pausing')
    const resumed = fleet.operation(behind.operation.id, LONG)
    gate.open()
    expect(await resumed).toMatchObject({ operation: { status: 'succeeded' }, sandbox: { state: 'running' } })
    await world.expectInvariants()
  })

  test('shows how an operation failed as a value, with a type to switch on', async () => {
    world.provider.next('create', { kind: 'error', type: 'quota_exceeded', message: 'ten are enough' })
    const { operation, sandbox } = await fleet.spawn({ backend: 'test', ...LONG })
    expect(operation).toMatchObject({
      status: 'failed',
      outcome: null,
      error: { errorType: 'quota_exceeded', retryable: true, message: expect.stringContaining('ten are enough') },
    })
    expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
    await world.expectInvariants()
  })

  test('answers what needs no work at once, without waiting', async () => {
    const running = await world.running()
    expect(await fleet.resume(running.id, LONG)).toMatchObject({
      operation: { status: 'succeeded', outcome: 'already_done', attempt: 0 },
      sandbox: { state: 'running' },
    })
    const plain = await world.running({ backend: 'plain' })
    expect((await fleet.pause(plain.id, LONG)).operation).toMatchObject({
      status: 'refused',
      attempt: 0,
      error: { errorType: 'pause_unsupported', retryable: false },
    })
    expect((await fleet.snapshot(plain.id, LONG)).operation).toMatchObject({
      error: { errorType: 'snapshot_unsupported' },
    })
    expect(await fleet.pause(plain.id, { ifUnsupported: 'kill', ...LONG })).toMatchObject({
      operation: { status: 'succeeded' },
      sandbox: { state: 'gone', goneReason: 'pause_unsupported' },
    })
    expect((await fleet.pause(plain.id, LONG)).operation.error?.errorType).toBe('sandbox_gone')
    expect((await fleet.kill(plain.id)).operation).toMatchObject({ outcome: 'already_done' })
    expect(await fleet.resume(plain.id, { ifLost: 'respawn', ...LONG })).toMatchObject({
      operation: { status: 'succeeded', outcome: 'respawned' },
      sandbox: { state: 'running' },
    })
    await world.expectInvariants()
  })

  test('makes one sandbox of twenty equal spawns with one key, and answers all of them when it runs', async () => {
    const asked = { backend: 'test', metadata: { owner: 'me' }, idempotencyKey: randomUUID(), ...LONG }
    const gate = world.provider.holdAt('create')
    const spawns = Array.from({ length: 20 }, () => fleet.spawn(asked))
    await gate.entered(1)
    const whileItIsMade = fleet.spawn(asked)
    gate.open()
    const answers = await Promise.all([...spawns, whileItIsMade])
    expect(new Set(answers.map(({ sandbox }) => sandbox.id)).size).toBe(1)
    expect(new Set(answers.map(({ operation }) => operation.id)).size).toBe(1)
    expect(new Set(answers.map(({ operation }) => operation.status))).toEqual(new Set(['succeeded']))
    const { id } = (await fleet.spawn(asked)).sandbox
    expect(id).toBe(answers[0]?.sandbox.id)
    expect(await world.operations(id)).toHaveLength(1)
    expect(world.provider.instancesOf(id)).toHaveLength(1)
    await world.expectInvariants()
  })

  test('makes one operation of twenty equal requests with one key, also long after', async () => {
    const { id } = await world.running()
    const idempotencyKey = randomUUID()
    const pauses = await Promise.all(Array.from({ length: 20 }, () => fleet.pause(id, { idempotencyKey, ...LONG })))
    expect(new Set(pauses.map(({ operation }) => operation.id)).size).toBe(1)
    await fleet.resume(id, LONG)
    const again = await fleet.pause(id, { idempotencyKey, ...LONG })
    expect(again.operation.id).toBe(pauses[0]?.operation.id)
    expect(again.sandbox.state).toBe('running')
    await world.expectInvariants()
  })

  test('carries out what was accepted although its caller stopped waiting', async () => {
    const gate = world.provider.holdAt('create')
    const stop = new AbortController()
    const idempotencyKey = randomUUID()
    const waiting = fleet.spawn({ backend: 'test', idempotencyKey, signal: stop.signal, ...LONG })
    await gate.entered(1)
    stop.abort(new Error('the user went home'))
    await expect(waiting).rejects.toThrow('the user went home')
    gate.open()
    expect(await fleet.spawn({ backend: 'test', idempotencyKey, ...LONG })).toMatchObject({
      operation: { status: 'succeeded' },
      sandbox: { state: 'running' },
    })
    await world.expectInvariants()
  })
})

describeStores('a fleet without a worker', (kind) => {
  let world: World
  let fleet: Fleet
  beforeAll(async () => {
    world = await createWorld(kind)
    fleet = world.fleet
  })
  afterAll(() => world.end())

  test('accepts every request at once', async () => {
    const { operation, sandbox } = await fleet.spawn({ backend: 'test' })
    expect(operation).toMatchObject({ kind: 'spawn', status: 'active', attempt: 0, sandboxId: sandbox.id })
    expect(sandbox).toMatchObject({ state: 'provisioning', fleet: fleet.name, operationId: operation.id })
    for (const verb of ['pause', 'resume', 'snapshot', 'kill', 'destroy'] as const) {
      const behind = await fleet[verb](sandbox.id)
      expect(behind.operation).toMatchObject({ kind: verb, status: 'waiting', error: null, settledAt: null })
      expect(behind.sandbox.id).toBe(sandbox.id)
    }
    expect((await fleet.adopt({ backend: 'test', ref: 'vm-1' })).operation).toMatchObject({ status: 'active' })
    await world.expectInvariants()
  })

  test('finds nothing that it does not have', async () => {
    const id = `sbx_${'0'.repeat(26)}`
    for (const missing of [id, 'nonsense', '', 'a\0b', undefined as unknown as string]) {
      for (const verb of ['get', 'events', 'pause', 'resume', 'snapshot', 'kill', 'destroy'] as const) {
        await expect(fleet[verb](missing), verb).rejects.toMatchObject({ code: 'sandbox_not_found' })
      }
    }
    for (const missing of [`op_${'0'.repeat(26)}`, 'nonsense', 'a\0b']) {
      await expect(fleet.operation(missing, { wait: '5s' })).rejects.toMatchObject({ code: 'operation_not_found' })
    }
  })

  test('says of an id that is of another kind which kind that is', async () => {
    const digits = '0'.repeat(26)
    for (const [prefix, kind] of [
      ['op', 'an operation'],
      ['exe', 'an execution'],
      ['ckpt', 'a checkpoint'],
    ] as const) {
      for (const call of ['get', 'why', 'events', 'operations', 'touch', 'kill', 'execute'] as const) {
        const message = `There is no sandbox ${prefix}_${digits} in fleet ${world.place.fleet}: this is the id of ${kind}.`
        await expect(fleet[call](`${prefix}_${digits}`), call).rejects.toThrow(message)
      }
    }
    await expect(fleet.operation(`sbx_${digits}`)).rejects.toThrow(': this is the id of a sandbox.')
    await expect(fleet.execution(`op_${digits}`)).rejects.toThrow(': this is the id of an operation.')
    await expect(fleet.get(`sbx_${digits}`)).rejects.toThrow(': check the id.')
  })

  test('does not see the sandboxes of another fleet', async () => {
    const stranger = createFleet({ ...world.place, fleet: `other-${randomUUID().slice(0, 8)}` })
    const idempotencyKey = randomUUID()
    const mine = await fleet.spawn({ backend: 'local', idempotencyKey })
    const { id } = mine.sandbox
    for (const verb of ['get', 'events', 'pause', 'destroy'] as const) {
      await expect(stranger[verb](id), verb).rejects.toMatchObject({ code: 'sandbox_not_found' })
    }
    await expect(stranger.operation(mine.operation.id)).rejects.toMatchObject({ code: 'operation_not_found' })
    expect(await stranger.list()).toEqual({ items: [], nextCursor: null })
    const theirs = await stranger.spawn({ backend: 'local', idempotencyKey })
    expect(theirs.sandbox.id).not.toBe(id)
    expect(await world.operations(id)).toHaveLength(1)
    await stranger.close()
  })

  test('keeps what an app wants to know of its sandboxes', async () => {
    const metadata = { owner: 'ada', tags: ['a', null, 1.5], nested: { ключ: true } }
    const ttl = { idle: '15m', hard: 86_400_000, retention: '30d' }
    const kept = {
      metadata,
      agentThreadId: 'thread-1',
      ttl: { idleMs: 900_000, hardMs: 86_400_000, retentionMs: 30 * 86_400_000 },
    }
    const { sandbox } = await fleet.spawn({ backend: 'test', metadata, ttl, agentThreadId: 'thread-1' })
    expect(sandbox).toMatchObject(kept)
    expect(await fleet.get(sandbox.id)).toEqual(sandbox)
    expect((await fleet.list({ limit: 1 })).items).toEqual([sandbox])
    const bare = await fleet.spawn({ backend: 'test', ttl: { idle: '1s' } })
    expect(bare.sandbox).toMatchObject({
      metadata: {},
      agentThreadId: null,
      ttl: { idleMs: 1_000, hardMs: null, retentionMs: null },
    })
  })

  test('asks nothing for a caller that does not wait for it any more', async () => {
    const before = await fleet.list({ limit: 1 })
    const { id } = before.items[0] as Sandbox
    const operations = await world.operations(id)
    const signal = AbortSignal.abort(new Error('too late'))
    await expect(fleet.spawn({ backend: 'test', signal })).rejects.toThrow('too late')
    await expect(fleet.destroy(id, { signal, ...LONG })).rejects.toThrow('too late')
    await expect(fleet.operation(operations[0]?.id as string, { signal })).rejects.toThrow('too late')
    expect(await fleet.list({ limit: 1 })).toEqual(before)
    expect(await world.operations(id)).toEqual(operations)
  })

  test.each([
    ['another spec', { template: 'b' }],
    ['another backend', { backend: 'plain' }],
    ['other metadata', { metadata: { owner: 'you' } }],
    ['another time to live', { ttl: { idle: '2m' } }],
  ])('refuses a key that has named another spawn: %s', async (_what, other) => {
    const asked = { backend: 'test', template: 'a', ttl: { idle: '1m' }, idempotencyKey: randomUUID() }
    const first = await fleet.spawn(asked)
    await expect(fleet.spawn({ ...asked, ...other })).rejects.toMatchObject({
      code: 'idempotency_key_reused',
      details: { operationId: first.operation.id },
    })
    await expect(fleet.kill(first.sandbox.id, { idempotencyKey: asked.idempotencyKey })).rejects.toMatchObject({
      code: 'idempotency_key_reused',
    })
    expect((await fleet.spawn(asked)).operation.id).toBe(first.operation.id)
    expect(await world.operations(first.sandbox.id)).toHaveLength(1)
  })

  test('pages through its sandboxes, the newest first, each of them once while more are made', async () => {
    const made: string[] = []
    for (let i = 0; i < 25; i++) made.push((await fleet.spawn({ backend: 'plain' })).sandbox.id)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await fleet.list({ limit: 4, ...(cursor && { cursor }) })
      seen.push(...idsOf(page.items))
      cursor = page.nextCursor ?? undefined
      await fleet.spawn({ backend: 'test' })
    } while (cursor)
    expect(seen.slice(0, 25)).toEqual(made.toReversed())
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen).toEqual(seen.toSorted().toReversed())

    const plain = await fleet.list({ backend: 'plain', limit: 500 })
    expect(plain.nextCursor).toBeNull()
    expect(new Set(plain.items.map(({ backend }) => backend))).toEqual(new Set(['plain']))
    expect(idsOf(plain.items)).toEqual(expect.arrayContaining(made))
    const whole = await fleet.list({ limit: 500 })
    expect(await fleet.list({ state: 'provisioning', limit: 500 })).toEqual(whole)
    expect((await fleet.list({ state: 'running' })).items).toEqual([])
    await world.expectInvariants()
  })
})

describe('a history', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld('postgres')
    await world.startWorker()
  })
  afterAll(() => world.end())

  test('is told in order, page by page, and can be taken up where it was left', async () => {
    const { id } = await world.suspended()
    const first = await world.fleet.events(id, { limit: 3 })
    expect(first.items.map(({ type, from, to }) => [type, from, to])).toEqual([
      ['spawn_began', null, 'provisioning'],
      ['spawned', 'provisioning', 'running'],
      ['pause_began', 'running', 'pausing'],
    ])
    expect(first.items[0]).toMatchObject({
      sandboxId: id,
      at: expect.any(Date),
      operationId: expect.stringMatching(/^op_/),
    })
    const second = await world.fleet.events(id, { limit: 3, cursor: first.nextCursor as string })
    expect(second.items.map(({ type }) => type)).toEqual(['paused'])
    expect(second.nextCursor).toBeNull()
    expect((await world.fleet.events(id)).items).toEqual([...first.items, ...second.items])
    await world.expectInvariants()
  })

  test('is listed by where the sandboxes are', async () => {
    const suspended = await world.suspended()
    const running = await world.running()
    expect(idsOf((await world.fleet.list({ state: 'suspended' })).items)).toContain(suspended.id)
    expect(idsOf((await world.fleet.list({ state: 'suspended' })).items)).not.toContain(running.id)
    expect((await world.fleet.list({ state: 'suspended', limit: 1 })).items[0]?.checkpoint).toMatchObject({
      status: 'ready',
      verifiedAt: expect.any(Date),
    })
  })
})

describeStores('a fleet whose queue is away', (kind) => {
  test('accepts a request all the same, and says so to whoever listens', async () => {
    const world = await createWorld(kind)
    onTestFinished(() => world.end())
    const events = new RecordedEvents()
    const proxy = world.place.redisUrl === undefined ? undefined : await startProxy(world.place.redisUrl)
    const fleet = createFleet({
      ...world.place,
      ...(proxy && { redisUrl: proxy.url }),
      onEvent: ({ name, fields }) => events.emit(name, fields),
    })
    onTestFinished(async () => {
      await fleet.close()
      await proxy?.close()
    })
    await fleet.spawn({ backend: 'local' })
    expect(events.count('operation.unheard')).toBe(0)
    // Queues in Postgres are as far away as the database is, and then there is nothing to accept; so only theirs goes.
    await (proxy ? proxy.refuse() : sql`alter schema bullmq rename to elsewhere`.execute(world.db))
    const { operation, sandbox } = await fleet.spawn({ backend: 'local' })
    expect(operation.status).toBe('active')
    expect((await events.until('operation.unheard')).fields).toMatchObject({ operationId: operation.id })
    expect((await fleet.kill(sandbox.id, { wait: '10ms' })).operation.status).toBe('waiting')
    await world.expectInvariants()
  })
})
