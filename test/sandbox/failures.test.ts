import { expect, test } from 'vitest'
import { FAILURES, failure, storableJson } from '../../src/sandbox/failures.ts'

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

test('what was seen can be kept as JSON, whatever a sandbox or a provider has said', () => {
  const kept = (value: unknown): unknown => JSON.parse(storableJson(value))
  const plain = { seen: 'running', checkpoint: { ref: 'a "quoted" ümlaut', sizeBytes: 1, name: null } }
  expect(kept({ ...plain, reason: undefined })).toEqual(plain)
  expect(kept({ nul: ['a\0b'], half: '\ud800', whole: '😀', escape: '\u001b[0m \\u0000' })).toEqual({
    nul: ['a\ufffdb'],
    half: '\ufffd',
    whole: '😀',
    escape: '\u001b[0m \\u0000',
  })
  expect(kept({ long: 'x'.repeat(100_000) })).toEqual({ long: `${'x'.repeat(2_000)}…` })
})
