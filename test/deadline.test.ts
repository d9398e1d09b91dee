import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { withDeadline } from '../src/deadline.ts'
import { describeError } from '../src/errors.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('what is done in time is what it gives', async () => {
  expect(await withDeadline(100, 'it', async () => 'done')).toBe('done')
  expect(vi.getTimerCount()).toBe(0)
})

test('what is late is left, told to stop, and named', async () => {
  let told: AbortSignal | undefined
  const waiting = withDeadline(100, 'the provider', (signal) => {
    told = signal
    return new Promise(() => {})
  })
  const failing = expect(waiting).rejects.toMatchObject({
    code: 'deadline_exceeded',
    message: 'the provider did not answer within 100 ms',
  })
  await vi.advanceTimersByTimeAsync(100)
  await failing
  expect(told?.aborted).toBe(true)
})

test('what fails before it has begun leaves no deadline behind that nobody waits for', async () => {
  const failing = withDeadline(100, 'it', () => {
    throw new Error('not even begun')
  })
  await expect(failing).rejects.toThrow('not even begun')
  expect(vi.getTimerCount()).toBe(0)
})

test('a failure that comes after the deadline is nobody else’s problem', async () => {
  const late = Promise.withResolvers<never>()
  const failing = expect(withDeadline(100, 'it', () => late.promise)).rejects.toMatchObject({
    code: 'deadline_exceeded',
  })
  await vi.advanceTimersByTimeAsync(100)
  await failing
  late.reject(new Error('too late to matter'))
  await vi.advanceTimersByTimeAsync(1)
})

test('an error is described with its causes, also when it has no words of its own', () => {
  const refused = new AggregateError([
    new Error('connect ECONNREFUSED ::1'),
    new Error('connect ECONNREFUSED 127.0.0.1'),
  ])
  expect(describeError(new Error('outer', { cause: refused }))).toBe(
    'outer: connect ECONNREFUSED ::1; connect ECONNREFUSED 127.0.0.1',
  )
  expect(describeError('a string')).toBe('a string')
})
