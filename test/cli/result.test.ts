import { expect, test } from 'vitest'
import { resultOf } from '../../src/cli/result.ts'
import type { Answer } from '../../src/fleet/fleet.ts'

const waited = { waitMs: 1_000, isInterrupted: false, hasColours: false }

function spawning(attempt: number): Answer {
  const operation = {
    id: 'op_1',
    kind: 'spawn',
    status: 'active',
    attempt,
    lastError: null,
    error: null,
    outcome: null,
  }
  return { operation, sandbox: { id: 'sbx_1', state: 'provisioning' } } as Answer
}

test('of what no worker has begun, it is said where to look for the reason', () => {
  expect(resultOf(spawning(0), waited)).toEqual({
    code: 5,
    isGood: false,
    text: 'sbx_1: not settled within 1.0s; the spawn is there, and no worker has begun it. "sandman why sbx_1" tells what that needs.',
  })
})

test('who stopped waiting is not told what was so when they began to', () => {
  expect(resultOf(spawning(0), { ...waited, isInterrupted: true }).text).toBe(
    'sbx_1: you stopped waiting; the spawn goes on (active). See "sandman show op_1 --watch".',
  )
})

test('what a worker is at goes on, and can be watched', () => {
  expect(resultOf(spawning(1), waited).text).toBe(
    'sbx_1: not settled within 1.0s; the spawn goes on (active). See "sandman show op_1 --watch".',
  )
})

test('what waits for something else is not said to go on', () => {
  const { operation, sandbox } = spawning(0)
  const waiting = { operation: { ...operation, kind: 'destroy', status: 'waiting' }, sandbox } as Answer
  expect(resultOf(waiting, waited).text).toBe(
    'sbx_1: not settled within 1.0s; the destroy waits for what was asked before it. "sandman why sbx_1" tells what that needs.',
  )
})

test('an option that a refusal names is named as it is typed here', () => {
  const { operation, sandbox } = spawning(0)
  const error = {
    errorType: 'sandbox_busy',
    message: 'Ask with "if busy: wait" or "if lost: respawn".',
    retryable: true,
  }
  const refused = { operation: { ...operation, status: 'refused', error }, sandbox } as unknown as Answer
  expect(resultOf(refused, waited).text).toContain('Ask with --if-busy wait or --if-lost respawn.')
})

test('what a message quotes of others stays on its line', () => {
  const { operation, sandbox } = spawning(0)
  const error = { errorType: 'sandbox_unreachable', message: 'It said: no\nsbx_2: all is well', retryable: false }
  const failed = { operation: { ...operation, status: 'failed', error }, sandbox } as unknown as Answer
  expect(resultOf(failed, waited).text.split('\n')).toHaveLength(1)
})
