import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { BackendErrorType } from '../../../src/backends/backend.ts'
import {
  apiError,
  type Fault,
  forbidden,
  GATEWAY,
  noCapacity,
  nodeBusy,
  placementTimeout,
  rateLimited,
  tooManySandboxes,
  unauthorized,
} from '../../support/e2b/faults.ts'
import { CALL, fails, setup, wanted } from './setup.ts'

const PAGE = { kind: 'status', status: 200, body: '<h1>Welcome</h1>' } as const
const ODD = { kind: 'status', status: 200, body: { state: 'dreaming' } } as const

/** Whatever answers, and however: what a call fails with. */
const FAULTS: [name: string, fault: Fault, type: BackendErrorType][] = [
  ['a gateway that knows no such page', GATEWAY.plain404, 'sandbox_unreachable'],
  ['a 404 that says nothing', GATEWAY.empty404, 'sandbox_unreachable'],
  ['a 404 in JSON without a code', GATEWAY.codeless404, 'sandbox_unreachable'],
  ['an internal error', GATEWAY.internalError, 'sandbox_unreachable'],
  ['a bad gateway', GATEWAY.html502, 'sandbox_unreachable'],
  ['a service that is away', GATEWAY.bare503, 'sandbox_unreachable'],
  ['a node that is busy', nodeBusy, 'sandbox_unreachable'],
  ['a node that was not found in time', placementTimeout, 'sandbox_unreachable'],
  ['no capacity', noCapacity, 'sandbox_unreachable'],
  ['a key that is not accepted', unauthorized, 'provider_unauthorized'],
  ['a key that may not do that', forbidden, 'provider_unauthorized'],
  ['too many requests, by E2B', rateLimited(), 'rate_limited'],
  ['too many requests, with a time to wait', rateLimited(1), 'rate_limited'],
  ['too many requests, by a gateway', GATEWAY.bare429, 'rate_limited'],
  ['too many sandboxes', tooManySandboxes, 'quota_exceeded'],
  ['something that cannot be', apiError(400, 'Invalid request'), 'spec_invalid'],
  ['a conflict', apiError(409, 'Sandbox "x" is being killed'), 'sandbox_unreachable'],
  ['a page of somebody else', PAGE, 'sandbox_unreachable'],
  ['an answer that nobody understands', ODD, 'sandbox_unreachable'],
  ['a connection that is reset', { kind: 'reset', performed: false }, 'sandbox_unreachable'],
  ['a connection that is cut', { kind: 'cut', performed: false }, 'sandbox_unreachable'],
]

test.each(FAULTS)('met by %s, a look and a create say so, and nobody is gone', async (_name, fault, type) => {
  const { e2b, backend, create } = await setup()
  const target = await create()
  e2b.next('get', fault)
  await expect(backend.look(target.ref, CALL)).rejects.toMatchObject(fails(type, 'E2B did not show a sandbox'))
  e2b.next('create', fault)
  const making = backend.create(wanted({}, { life: 'op_2' }), CALL)
  await expect(making).rejects.toMatchObject(fails(type, 'E2B did not make a sandbox'))
  e2b.next('kill', fault)
  await expect(backend.end(target, CALL)).rejects.toMatchObject(fails(type))
  expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
  expect([e2b.count('create'), e2b.count('kill')]).toEqual([2, 1]) // nothing was tried again behind anybody's back
})

describe('inside a sandbox', () => {
  test.each<[string, Fault, BackendErrorType]>([
    ['a bad gateway', GATEWAY.html502, 'sandbox_unreachable'],
    ['too many requests', GATEWAY.bare429, 'sandbox_unreachable'],
    ['a reset', { kind: 'reset', performed: false }, 'sandbox_unreachable'],
    ['a reset after it was done', { kind: 'reset', performed: true }, 'sandbox_unreachable'],
    ['something that is not there', { kind: 'rpc', code: 'not_found' }, 'sandbox_unreachable'],
    ['something that is not available', { kind: 'rpc', code: 'unavailable' }, 'sandbox_unreachable'],
    ['something that took too long', { kind: 'rpc', code: 'deadline_exceeded' }, 'sandbox_unreachable'],
    ['an error of its own', { kind: 'rpc', code: 'internal' }, 'sandbox_unreachable'],
    ['a token that is not accepted', { kind: 'rpc', code: 'unauthenticated' }, 'provider_unauthorized'],
    ['a limit', { kind: 'rpc', code: 'resource_exhausted' }, 'rate_limited'],
    ['a stream that ends too early', { kind: 'stream', afterBytes: 0, how: 'end' }, 'sandbox_unreachable'],
    ['a stream that is cut', { kind: 'stream', afterBytes: 0, how: 'cut' }, 'sandbox_unreachable'],
    ['a lie', { kind: 'lie' }, 'sandbox_unreachable'],
  ])('%s is not the end of it', async (_name, fault, type) => {
    const { e2b, backend, create } = await setup()
    const target = await create()
    e2b.next('start', fault)
    await expect(backend.run(target, 'echo hi', CALL)).rejects.toMatchObject(fails(type))
    expect(await backend.run(target, 'echo hi', CALL)).toEqual({ exitCode: 0, output: 'hi\n' })
  })
})

test('what does not answer is given up after a time, and is not gone', async () => {
  const { e2b, open, create } = await setup()
  const target = await create()
  const hasty = await open({ requestTimeoutMs: 200 })
  e2b.next('get', { kind: 'hang', performed: false })
  await expect(hasty.look(target.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  e2b.next('start', { kind: 'hang', performed: false })
  await expect(hasty.run(target, 'true', CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
})

test('no failure tells the key', async () => {
  const { e2b, open } = await setup({ apiKey: 'e2b_very_secret' })
  for (const fault of [unauthorized, GATEWAY.plain404, { kind: 'reset', performed: false } as const]) {
    e2b.next('get', fault)
    const error = await (await open()).look('iaaaaaaaaaaaaaaaaaaaa', CALL).catch((error: unknown) => error)
    expect(error).toMatchObject({ name: 'BackendError' })
    expect(inspect(error, { depth: 10 })).not.toContain('e2b_very_secret')
  }
})
