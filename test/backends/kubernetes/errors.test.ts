import { describe, expect, test } from 'vitest'
import { answer, isAbsent, isTooOld, Refusal, says, Unreadable } from '../../../src/backends/kubernetes/errors.ts'
import { ApiError, quotaExceeded } from '../../support/kubernetes/api-error.ts'
import { call, failure } from './setup.ts'

const PODS = { group: '', plural: 'pods', kind: 'Pod' }
const POD = { name: 'x', kind: 'pods' }
const refusal = ({ code, status }: ApiError) => new Refusal('GET /x', code, JSON.stringify(status))
const typeOf = async (error: unknown) =>
  (await failure(answer('show a pod', call(), () => Promise.reject(error as Error)))).type

describe('what an API server says means', () => {
  test.each([
    [401, 'Unauthorized', 'Unauthorized', 'provider_unauthorized'],
    [
      403,
      'Forbidden',
      'pods "x" is forbidden: User "u" cannot delete resource "pods" in API group "" in the namespace "ns"',
      'provider_unauthorized',
    ],
    [
      403,
      'Forbidden',
      'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)',
      'spec_invalid',
    ],
    [
      403,
      'Forbidden',
      'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
      'spec_invalid',
    ],
    [403, 'Forbidden', 'admission webhook "policy.example.com" denied the request: no such image', 'spec_invalid'],
    [409, 'AlreadyExists', 'object is being deleted: pods "x" already exists', 'sandbox_unreachable'],
    [
      409,
      'Conflict',
      'Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes to the latest version and try again',
      'sandbox_unreachable',
    ],
    [410, 'Expired', 'too old resource version: 5 (900)', 'sandbox_unreachable'],
    [415, 'UnsupportedMediaType', 'the body of the request was in an unknown format', 'sandbox_unreachable'],
    [422, 'Invalid', 'Pod "x" is invalid: spec.containers[0].image: Required value', 'spec_invalid'],
    [
      400,
      'BadRequest',
      'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field',
      'spec_invalid',
    ],
    [413, 'RequestEntityTooLarge', 'Request entity too large: limit is 3145728', 'spec_invalid'],
    [429, 'TooManyRequests', 'the server has received too many requests', 'rate_limited'],
    [500, 'InternalError', 'etcdserver: leader changed', 'sandbox_unreachable'],
    [503, 'ServiceUnavailable', 'apiserver not ready', 'sandbox_unreachable'],
    [504, 'Timeout', 'Timeout: request did not complete within requested timeout', 'sandbox_unreachable'],
  ])('%i %s "%s": %s', async (code, reason, message, type) => {
    expect(await typeOf(refusal(new ApiError(code, reason, message, POD)))).toBe(type)
  })

  test('that a quota is used up, which is said as if somebody may not', async () => {
    const full = quotaExceeded(PODS, 'x', 'pods, requested: pods=1, used: pods=10, limited: pods=10')
    expect(await typeOf(refusal(full))).toBe('quota_exceeded')
  })
})

describe('what somebody on the way says means no more than that nobody was reached:', () => {
  test.each([
    [404, '404 page not found\n'],
    [404, ''],
    [404, '{"message":"no route"}'],
    [400, 'The plain HTTP request was sent to HTTPS port'],
    [422, '{}'],
    [410, 'Gone'],
    [502, '<html><head><title>502 Bad Gateway</title></head></html>'],
  ])('%i %j', async (status, body) => {
    const refused = new Refusal('GET /x', status, body)
    expect(await typeOf(refused)).toBe('sandbox_unreachable')
    expect(isAbsent(refused, 'x')).toBe(false)
  })

  test.each([
    ['a reset', Object.assign(new Error('read'), { code: 'ECONNRESET' })],
    ['nobody there', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
    ['an answer that is cut', Object.assign(new Error('Premature close'), { code: 'ERR_STREAM_PREMATURE_CLOSE' })],
    ['something that is not HTTP', Object.assign(new Error('Parse Error'), { code: 'HPE_INVALID_CONSTANT' })],
    ['a certificate of somebody else', Object.assign(new Error('x'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })],
    ['what cannot be read', new Unreadable('GET /x', '<h1>Welcome</h1>')],
  ])('%s', async (_what, error) => {
    expect(await typeOf(error)).toBe('sandbox_unreachable')
  })

  test('a mistake of our own stays one', async () => {
    const mistake = new TypeError('x is not a function')
    await expect(answer('show a pod', call(), () => Promise.reject(mistake))).rejects.toBe(mistake)
    const misused = Object.assign(new TypeError('x'), { code: 'ERR_INVALID_ARG_TYPE' })
    await expect(answer('show a pod', call(), () => Promise.reject(misused))).rejects.toBe(misused)
  })
})

describe('that there is no such thing', () => {
  const absent = (name: string, details: object | undefined = { name, kind: 'pods' }) =>
    refusal(new ApiError(404, 'NotFound', `pods "${name}" not found`, details))

  test('counts when it is said of that very object', () => {
    expect(isAbsent(absent('x'), 'x')).toBe(true)
    expect(isAbsent(absent('y'), 'x')).toBe(false)
    expect(isAbsent(refusal(new ApiError(410, 'Gone', 'x', POD)), 'x')).toBe(false)
    expect(isAbsent(refusal(new ApiError(404, 'Unknown', 'x', POD)), 'x')).toBe(false)
    expect(isAbsent(new Error('404'), 'x')).toBe(false)
  })

  test('does not count of a resource that is not served, which a Status may say, too', () => {
    const unserved = new ApiError(404, 'NotFound', 'the server could not find the requested resource')
    expect(isAbsent(refusal(unserved), 'x')).toBe(false)
  })
})

test('what is said can be told from what only looks like it', () => {
  const refused = refusal(new ApiError(410, 'Expired', 'too old resource version: 5 (900)'))
  expect([isTooOld(refused), says(refused, 410, 'Expired'), says(refused, 410, 'Gone')]).toEqual([true, true, false])
  expect(refused.message).toBe('GET /x was answered with 410: too old resource version: 5 (900)')
})
