import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { BackendErrorType } from '../../../src/backends/backend.ts'
import { apiError, type Fault, GATEWAY } from '../../support/agentuity/faults.ts'
import { agentuity, CALL, fails, playAgentuity, setup } from './setup.ts'

await playAgentuity()

const FAULTS: [name: string, fault: Fault, type: BackendErrorType][] = [
  ['a gateway that knows no such page', GATEWAY.plain404, 'sandbox_unreachable'],
  ['a 404 that says nothing', GATEWAY.empty404, 'sandbox_unreachable'],
  ['a 404 in JSON that names no sandbox', GATEWAY.codeless404, 'sandbox_unreachable'],
  ['an internal error', GATEWAY.internalError, 'sandbox_unreachable'],
  ['a bad gateway', GATEWAY.html502, 'sandbox_unreachable'],
  ['a service that is not there', GATEWAY.bare503, 'sandbox_unreachable'],
  ['a gateway that waited too long', apiError(504, 'upstream timed out'), 'sandbox_unreachable'],
  ['a page of somebody else', GATEWAY.welcome, 'sandbox_unreachable'],
  ['an answer with nothing in it', { kind: 'status', status: 204 }, 'sandbox_unreachable'],
  ['a success that is none', apiError(200, 'something went wrong'), 'sandbox_unreachable'],
  ['a conflict', apiError(409, 'Conflict'), 'sandbox_unreachable'],
  ['a connection that is reset', { kind: 'reset', performed: false }, 'sandbox_unreachable'],
  ['a connection that is cut', { kind: 'cut', performed: false }, 'sandbox_unreachable'],
  ['no credentials', apiError(401, 'Invalid API key'), 'provider_unauthorized'],
  ['no permission', apiError(403, 'Forbidden'), 'provider_unauthorized'],
  ['an SDK that is too old', apiError(426, 'Upgrade required', 'UPGRADE_REQUIRED'), 'provider_unauthorized'],
  ['a bill that was not paid', apiError(402, 'Payment required'), 'quota_exceeded'],
  ['too many requests', apiError(429, 'Slow down'), 'rate_limited'],
  ['a question that cannot be', apiError(400, 'Invalid request'), 'spec_invalid'],
  ['a gateway that understands nothing', { kind: 'status', status: 400, body: 'bad request' }, 'sandbox_unreachable'],
]

describe('each way to fail', async () => {
  const { backend, create, wanted, owner } = await setup()
  const target = await create()

  test.each(FAULTS)(
    'met by %s, a look, a create and an end say so, once, and nobody is gone',
    async (_name, fault, type) => {
      const before = agentuity.requests.length
      agentuity.next('get', fault)
      await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(
        fails(type, /^Agentuity did not show a sandbox/),
      )
      agentuity.next('create', fault)
      const life = `op_${'2'.repeat(26)}`
      const making = backend.create(wanted({}, { life }), CALL)
      await expect(making).rejects.toMatchObject(fails(type))
      agentuity.next('destroy', fault)
      await expect(backend.end(target, CALL)).rejects.toMatchObject(fails(type))
      expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
      expect((await backend.find(owner.sandboxId, CALL)).map(({ ref }) => ref)).toEqual([target.ref])
      const asked = agentuity.requests.slice(before).map(({ route }) => route)
      // Nothing was tried again behind anybody's back.
      expect(asked.filter((route) => route === 'create' || route === 'destroy')).toEqual(['create', 'destroy'])
    },
  )
})

test('a server that is not there is unreachable at once, and not after half a minute', async () => {
  const { open } = await setup()
  const nowhere = await open({ url: 'http://127.0.0.1:9' })
  const began = performance.now()
  await expect(nowhere.look('sbx_1', CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  expect(performance.now() - began).toBeLessThan(5_000)
})

test('what does not answer is given up after a time, and is not gone', async () => {
  const { open, create } = await setup()
  const target = await create()
  const hasty = await open({ patience: { requestMs: 150 } })
  agentuity.next('get', { kind: 'hang', performed: false })
  await expect(hasty.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  agentuity.next('events', { kind: 'hang', performed: false })
  await expect(hasty.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
})

describe('not found', () => {
  const NOT_FOUND: [string, Fault][] = [
    ['by its code', apiError(404, 'gone', 'SANDBOX_NOT_FOUND')],
    ['by its words, where it has no code', apiError(404, 'Sandbox not found')],
    ['by its code, although the status says that all is well', apiError(200, 'gone', 'SANDBOX_NOT_FOUND')],
  ]
  test.each(NOT_FOUND)('is what Agentuity says %s, of this very sandbox, twice', async (_how, fault) => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.next('get', fault, fault)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
    agentuity.next('get', fault)
    await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  })

  test('is not what is said of something else', async () => {
    const { backend, create } = await setup()
    const target = await create()
    const other = apiError(404, 'Sandbox not found', 'EXECUTION_NOT_FOUND')
    agentuity.next('get', other, other)
    await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  })

  test('is not what a history says that cannot be read', async () => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.next('events', apiError(404, 'Sandbox not found', 'SANDBOX_NOT_FOUND'))
    await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  })

  test('is what can be no name of a sandbox, and nobody is asked', async () => {
    const { backend } = await setup()
    const before = agentuity.requests.length
    for (const ref of ['snapshots', '../sandbox', 'status/x', '', 'sbx_1/pause'])
      expect(await backend.look(ref, CALL)).toEqual({ is: 'absent' })
    expect(agentuity.requests.length).toBe(before)
  })
})

test('a status that nobody has heard of is no answer, and nothing is done because of it', async () => {
  const { backend, pausing, create } = await setup()
  const target = await create()
  agentuity.pretend(target.ref, { status: 'evacuating' })
  await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', /status/))
  await expect(pausing.suspend(target, { key: 'op_p' }, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  await expect(backend.end(target, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  expect(agentuity.statusOf(target.ref)).toBe('idle')
})

test('an answer about another sandbox is no answer', async () => {
  const { backend, create } = await setup()
  const target = await create()
  agentuity.pretend(target.ref, { sandboxId: 'sbx_other' })
  await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'sbx_other'))
})

test('no failure tells the key', async () => {
  const { open } = await setup()
  const backend = await open({ apiKey: 'very_secret' })
  for (const fault of [apiError(401, 'no'), GATEWAY.plain404, { kind: 'reset', performed: false } as const]) {
    agentuity.next('events', fault)
    const error = await backend.look('sbx_1', CALL).catch((error: unknown) => error)
    expect(error).toMatchObject({ name: 'BackendError' })
    expect(inspect(error, { depth: 10 })).not.toContain('very_secret')
  }
})
