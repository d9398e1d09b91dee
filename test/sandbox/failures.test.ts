import { expect, test } from 'vitest'
import { FAILURES, failure } from '../../src/sandbox/failures.ts'

test('an app may ask again exactly when that can help', () => {
  const retryable = Object.entries(FAILURES).flatMap(([type, { retryable }]) => (retryable ? [type] : []))
  expect(retryable.toSorted()).toEqual([
    'internal',
    'provider_unauthorized',
    'quota_exceeded',
    'rate_limited',
    'sandbox_busy',
    'sandbox_unreachable',
  ])
})

test('a failure names its checkpoint when it is about one', () => {
  expect(failure('checkpoint_missing', 'gone', 'ckpt_1')).toEqual({
    error_type: 'checkpoint_missing',
    message: 'gone',
    retryable: false,
    checkpoint_id: 'ckpt_1',
  })
  expect(failure('internal', 'oops')).toEqual({ error_type: 'internal', message: 'oops', retryable: true })
})
