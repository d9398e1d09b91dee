import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { BACKEND_NAMES } from '../../src/backends/names.ts'
import {
  type Answer,
  createFleet,
  type FailureType,
  type Fleet,
  type FleetOptions,
  isSandmanError,
  type Operation,
  type OperationError,
} from '../../src/index.ts'
import { createWorld, type World } from '../support/world.ts'

describe('a request that makes no sense', () => {
  let world: World
  /** Without a compiler, as from JavaScript or from the network. */
  let fleet: Record<keyof Fleet, (...args: unknown[]) => Promise<unknown>>
  let id: string
  let before: string
  beforeAll(async () => {
    world = await createWorld('postgres')
    fleet = world.fleet as unknown as typeof fleet
    id = (await world.fleet.spawn({ backend: 'test' })).sandbox.id
    before = await rows()
  })
  afterAll(async () => {
    await world.expectInvariants()
    await world.end()
  })

  async function rows(): Promise<string> {
    const counted = await sql<{ count: string }>`
      select (select count(*) from sandman.sandboxes) || ' ' || (select count(*) from sandman.operations) || ' '
        || (select count(*) from sandman.idempotency_keys) || ' ' || (select count(*) from sandman.events) as count`.execute(
      world.db,
    )
    return String(counted.rows[0]?.count)
  }

  const circle: Record<string, unknown> = {}
  circle.again = { circle }
  const bottomless = JSON.parse(`${'['.repeat(7_000)}${']'.repeat(7_000)}`)
  const proto = JSON.parse('{ "__proto__": "x", "owner": "ada" }')
  const everywhere = [
    [{ wait: 'soon' }, 'wait'],
    [{ wait: -1 }, 'wait'],
    [{ wait: 1.5 }, 'wait'],
    [{ wait: '11m' }, 'wait'],
    [{ wait: null }, 'wait'],
    [{ signal: 'stop' }, 'signal'],
    [{ idempotencyKey: '' }, 'idempotencyKey'],
    [{ idempotencyKey: 'k'.repeat(256) }, 'idempotencyKey'],
    [{ idempotencyKey: 'k\0' }, 'idempotencyKey'],
    [{ idempotencyKey: 7 }, 'idempotencyKey'],
    [{ idempotenceKey: 'k' }, 'idempotenceKey'],
  ] as const
  const making = [
    ...everywhere,
    [{ backend: '' }, 'backend'],
    [{ backend: undefined }, 'backend'],
    [{ backend: 'a\0' }, 'backend'],
    [{ ttl: { idle: '-1s' } }, 'ttl.idle'],
    [{ ttl: { idle: '1ms' } }, 'ttl.idle'],
    [{ ttl: { hard: '99999d' } }, 'ttl.hard'],
    [{ ttl: { hard: Number.NaN } }, 'ttl.hard: must be a duration'],
    [{ ttl: { retention: 'for ever' } }, 'ttl.retention'],
    [{ ttl: { forever: '1h' } }, 'forever'],
    [{ ttl: '15m' }, 'ttl'],
    [{ metadata: { blob: 'x'.repeat(16_385) } }, 'metadata'],
    [{ metadata: { blob: 'ä'.repeat(8_190) } }, 'metadata'],
    [{ metadata: { list: Array(16_400).fill(1) } }, 'metadata'],
    [{ metadata: { ['k'.repeat(257)]: 1 } }, 'metadata'],
    [{ metadata: { at: new Date(0) } }, 'metadata.at'],
    [{ metadata: { run: () => 1 } }, 'metadata.run'],
    [{ metadata: { count: Number.POSITIVE_INFINITY } }, 'metadata.count'],
    [{ metadata: { text: 'NUL\0' } }, 'metadata'],
    [{ metadata: { 'NUL\0': 1 } }, 'metadata'],
    [{ metadata: { half: '\ud83d' } }, 'metadata'],
    [{ metadata: circle }, 'metadata'],
    [{ metadata: { bottomless } }, 'metadata'],
    [{ metadata: proto }, '__proto__'],
    [{ metadata: { list: [{ proto }] } }, '__proto__'],
    [{ metadata: ['a'] }, 'metadata'],
    [{ metadata: 'a' }, 'metadata'],
    [{ agentThreadId: '' }, 'agentThreadId'],
    [{ agentThreadId: 'a\0' }, 'agentThreadId'],
    [{ template: '\ud800' }, 'template'],
    [{ agent: { command: [] } }, 'agent.command'],
    [{ agent: { command: 'node agent.js' } }, 'agent.command'],
    [{ agent: { command: ['node\0'] } }, 'agent.command.0'],
    [{ agent: { command: ['', 'x'] } }, 'agent.command'],
    [{ agent: { command: ['node', ...Array(4).fill('x'.repeat(32_768))] } }, 'agent.command'],
    [{ agent: { command: ['node'], env: { '1A': 'x' } } }, 'agent.env.1A'],
    [{ agent: { command: ['node'], env: { 'A=B': 'x' } } }, 'agent.env.A=B'],
    [{ agent: { command: ['node'], env: { A: 1 } } }, 'agent.env.A'],
    [{ agent: { command: ['node'], env: { A: '\0' } } }, 'agent.env.A'],
    [{ agent: { command: ['node'], sidecar: {} } }, 'agent.sidecar.command'],
    [{ wake: { previewPort: 70_000 } }, 'wake.previewPort'],
    [{ wake: { commands: [''] } }, 'wake.commands.0'],
    [{ limits: { memoryBytesMax: 1 } }, 'limits.memoryBytesMax'],
  ] as const

  async function expectInvalid(asked: Promise<unknown>, field: string): Promise<void> {
    const error = await asked.then(
      () => undefined,
      (reason: unknown) => reason,
    )
    expect(error, field).toMatchObject({ name: 'SandmanError', code: 'request_invalid' })
    expect((error as Error).message).toContain(field)
    expect((error as Error).message.length).toBeLessThan(1_000)
    expect(await rows()).toBe(before)
  }

  test('spawn is told of every field', async () => {
    for (const [asked, field] of [...making, [{ from: 'snapshot-1' }, 'from']] as const) {
      await expectInvalid(fleet.spawn({ backend: 'test', ...asked }), field)
    }
  })

  test('adopt is told of every field', async () => {
    for (const [asked, field] of [
      [{ ref: '' }, 'ref'],
      [{ ref: undefined }, 'ref'],
      [{ ref: 'vm\0' }, 'ref'],
      [{ checkpointRef: '' }, 'checkpointRef'],
      [{ from: `ckpt_${'0'.repeat(26)}` }, 'from'],
      [{ ttl: { idle: 'soon' } }, 'ttl.idle'],
    ] as const) {
      await expectInvalid(fleet.adopt({ backend: 'test', ref: 'vm', ...asked }), field)
    }
  })

  test.each(['pause', 'resume', 'snapshot', 'kill', 'destroy'] as const)('%s is told of every field', async (verb) => {
    for (const [asked, field] of everywhere) await expectInvalid(fleet[verb](id, asked), field)
    for (const asked of [null, 'now', []]) await expectInvalid(fleet[verb](id, asked), '(request)')
  })

  test.each([
    ['pause', { ifUnsupported: 'destroy' }, 'ifUnsupported'],
    ['resume', { ifLost: 'cry' }, 'ifLost'],
    ['resume', { skipHooks: 'yes' }, 'skipHooks'],
    ['snapshot', { name: 'a name' }, 'name'],
    ['snapshot', { name: '' }, 'name'],
    ['operation', { wait: 'soon' }, 'wait'],
    ['operation', { idempotencyKey: 'k' }, 'idempotencyKey'],
    ['events', { cursor: 'x' }, 'cursor'],
    ['events', { limit: 0 }, 'limit'],
  ] as const)('%s(%j) is told: %s', (verb, asked, field) => expectInvalid(fleet[verb](id, asked), field))

  test.each([
    [{ limit: 501 }, 'limit'],
    [{ limit: '10' }, 'limit'],
    [{ state: 'asleep' }, 'state'],
    [{ backend: '\0' }, 'backend'],
    [{ cursor: 'x' }, 'cursor'],
    [{ cursor: '\0' }, 'cursor'],
    [{ sort: 'id' }, 'sort'],
    [{ metadata: proto }, '__proto__'],
    [{ metadata: 'a' }, 'metadata'],
  ])('list(%j) is told: %s', (asked, field) => expectInvalid(fleet.list(asked), field))

  test('names every field that is wrong at once', async () => {
    await expect(fleet.spawn({ backend: 'test', wait: 'soon', ttl: { idle: 'x', hard: 'y' } })).rejects.toMatchObject({
      details: { problems: [{ field: 'ttl.idle' }, { field: 'ttl.hard' }, { field: 'wait' }] },
    })
    for (const asked of [undefined, null, 'test', 5]) await expectInvalid(fleet.spawn(asked), '(request)')
  })

  test('for a backend that there is not is told which there are', async () => {
    for (const make of [() => fleet.spawn({ backend: 'tset' }), () => fleet.adopt({ backend: 'tset', ref: 'vm' })]) {
      await expect(make()).rejects.toMatchObject({
        code: 'backend_unknown',
        message: `There is no backend tset; there are: ${[...BACKEND_NAMES, 'test', 'plain'].join(', ')}.`,
      })
    }
    expect(await rows()).toBe(before)
  })

  test('may hold what is unusual and can be kept', async () => {
    const unusual = { '': '🦄 ä \u0001', list: [[[{}]]], __proto: null, n: -1e-300 }
    const { sandbox } = await world.fleet.spawn({ backend: 'test', metadata: unusual, idempotencyKey: '🔑', ttl: {} })
    expect(sandbox.metadata).toEqual(unusual)
    const again = await world.fleet.spawn({ backend: 'test', metadata: unusual, idempotencyKey: '🔑' })
    expect(again.sandbox.id).toBe(sandbox.id)
    before = await rows()
  })

  test.each([
    [{ fleet: 'Not A Name' }, 'fleet'],
    [{ fleet: '' }, 'fleet'],
    [{ fleet: 'x'.repeat(41) }, 'fleet'],
    [{ databaseUrl: 'mysql://secret@host' }, 'databaseUrl'],
    [{ databaseUrl: undefined as unknown as string }, 'databaseUrl'],
    [{ redisUrl: 'localhost:secret' }, 'redisUrl'],
    [{ redisUrl: '' }, 'redisUrl'],
    [{ redisURL: 'redis://host' }, 'redisURL'],
    [{ connectionsMax: 0 }, 'connectionsMax'],
    [{ backends: [{ name: 'mine' }] as never }, 'backends.0.canPause'],
  ])('createFleet(%j) is told: %s', (options, field) => {
    let thrown: unknown
    try {
      createFleet({ ...world.place, ...options })
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ code: 'request_invalid', message: expect.stringContaining(field) })
    expect((thrown as Error).message).not.toContain('secret')
  })
})

// Checked by the compiler, too. What a process hands in besides is no affair of an app.
test('an app sees one parameter of createFleet', () => {
  expectTypeOf(createFleet).parameters.toEqualTypeOf<[FleetOptions]>()
  expect(createFleet).toHaveLength(1)
})

describe('an answer', () => {
  // Checked by the compiler: `tsc` is what fails here.
  test('is narrowed by the status of its operation', () => {
    const told = (operation: Operation): string => {
      switch (operation.status) {
        case 'waiting':
        case 'active':
          expectTypeOf(operation.error).toEqualTypeOf<null>()
          expectTypeOf(operation.settledAt).toEqualTypeOf<null>()
          return 'patience'
        case 'succeeded':
          expectTypeOf(operation.outcome).toEqualTypeOf<'done' | 'already_done' | 'respawned'>()
          expectTypeOf(operation.settledAt).toEqualTypeOf<Date>()
          return operation.outcome
        case 'failed':
        case 'refused':
          expectTypeOf(operation.error).toEqualTypeOf<OperationError>()
          expectTypeOf(operation.error.errorType).toEqualTypeOf<FailureType>()
          return operation.error.errorType
      }
    }
    // @ts-expect-error: an operation that may still run has no error to read
    const careless = (operation: Operation) => operation.error.errorType
    const base = { id: 'op', sandboxId: 'sbx', kind: 'pause', checkpointId: null, attempt: 0, lastError: null } as const
    const dates = { createdAt: new Date(0), startedAt: null, settledAt: new Date(0) }
    const error = { errorType: 'sandbox_gone', message: 'It is gone.', retryable: false } as const
    expect(told({ ...base, ...dates, status: 'refused', outcome: null, error })).toBe('sandbox_gone')
    expect(careless({ ...base, ...dates, status: 'failed', outcome: null, error })).toBe('sandbox_gone')
  })

  test('has the same type for every verb, and each verb its own options', () => {
    expectTypeOf<ReturnType<Fleet['spawn']>>().toEqualTypeOf<Promise<Answer>>()
    for (const verb of ['pause', 'resume', 'snapshot', 'kill', 'destroy'] as const) {
      expectTypeOf<ReturnType<Fleet[typeof verb]>>().toEqualTypeOf<Promise<Answer>>()
    }
    const compiled = (fleet: Fleet) => [
      fleet.pause('sbx', { ifUnsupported: 'kill', wait: '5s', idempotencyKey: 'k', signal: AbortSignal.abort() }),
      fleet.resume('sbx', { ifLost: 'respawn', skipHooks: true, wait: 5_000 }),
      // @ts-expect-error: not something that a pause allows
      fleet.pause('sbx', { ifLost: 'respawn' }),
      // @ts-expect-error: there is only one thing to do with what cannot pause
      fleet.pause('sbx', { ifUnsupported: 'destroy' }),
      // @ts-expect-error: a sandbox is made on a backend
      fleet.spawn({}),
      // @ts-expect-error: an instance is adopted by its name
      fleet.adopt({ backend: 'test' }),
      // @ts-expect-error: there is no such state
      fleet.list({ state: 'asleep' }),
      // @ts-expect-error: metadata is JSON
      fleet.spawn({ backend: 'test', metadata: { at: new Date() } }),
    ]
    expect(compiled).toBeTypeOf('function')
  })

  test('that was thrown is told apart by its code', () => {
    const explain = (error: unknown): string => {
      if (isSandmanError(error, 'sandbox_not_found')) return `gone: ${error.message}`
      if (!isSandmanError(error)) throw error
      // @ts-expect-error: not one of the codes
      if (error.code === 'oops') return 'never'
      return error.code
    }
    expect(() => createFleet({ databaseUrl: 'postgres://x/y', fleet: '!' })).toThrow(
      expect.toSatisfy((error) => explain(error) === 'request_invalid'),
    )
  })
})
