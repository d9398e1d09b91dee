import { describe, expect, test } from 'vitest'
import { SandmanError } from '../src/errors.ts'
import { EVENTS, Events } from '../src/events.ts'
import { createLogger, logEvents, withLogFields } from '../src/logger.ts'
import { createRedactor } from '../src/redactor.ts'

function startLog({ level = 'info', secrets = [] as string[] } = {}) {
  const written: string[] = []
  const events = new Events()
  const destination = { write: (line: string) => written.push(line) }
  logEvents(events, createLogger({ level, fields: { process: 'test' }, redact: createRedactor(secrets), destination }))
  return {
    events,
    lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>),
    text: () => written.join(''),
  }
}

describe('the log', () => {
  test('is one JSON line an event, with level, time and the words of the catalogue', () => {
    const { events, lines } = startLog()
    events.emit('process.started', { queues: ['canary'] })
    expect(lines()).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        process: 'test',
        event: 'process.started',
        queues: ['canary'],
        msg: EVENTS['process.started'].says,
      },
    ])
  })

  test('leaves out what is less important than its level', () => {
    const { events, lines } = startLog({ level: 'warn' })
    events.emit('process.started')
    events.emit('database.connection_lost')
    expect(lines().map((line) => line.event)).toEqual(['database.connection_lost'])
  })

  test('puts the fields of a job on every line that its work writes, and on no other', async () => {
    const { events, lines } = startLog({ level: 'debug' })
    const job = (jobId: string) =>
      withLogFields({ jobId }, async () => {
        events.emit('job.started')
        await new Promise(setImmediate)
        events.emit('job.done')
      })
    await Promise.all([job('1'), job('2')])
    events.emit('process.stopped')
    expect(lines().map(({ event, jobId }) => [event, jobId])).toEqual([
      ['job.started', '1'],
      ['job.started', '2'],
      ['job.done', '1'],
      ['job.done', '2'],
      ['process.stopped', undefined],
    ])
  })

  test('shows an error with its cause', () => {
    const { events, lines } = startLog()
    events.emit('process.crashed', { error: new Error('outer', { cause: new Error('inner') }) })
    expect(lines()[0]).toMatchObject({
      level: 'fatal',
      err: { message: expect.stringContaining('outer: inner'), stack: expect.stringContaining('inner') },
    })
  })

  test('shows an expected error without its stack', () => {
    const { events, lines } = startLog()
    events.emit('queue.error', { error: new SandmanError('queue_unreachable', 'it is away') })
    expect(lines()[0]).toMatchObject({ code: 'queue_unreachable', reason: 'it is away' })
    expect(lines()[0]).not.toHaveProperty('err')
  })

  test('never prints a known secret or the password of a URL, wherever it turns up', () => {
    const { events, text } = startLog({ secrets: ['tok"en-of-ann'] })
    const error = new Error('could not connect to redis://default:swordfish@cache:6379 as tok"en-of-ann')
    events.emit('queue.error', { error, headers: { authorization: 'Bearer x' }, url: 'postgres://u:swordfish@db/name' })
    expect(text()).not.toContain('swordfish')
    expect(text()).not.toContain('en-of-ann')
    expect(text()).not.toContain('Bearer x')
    expect(text()).toContain('redis://default:[redacted]@cache:6379')
  })
})

test('redacts a line of any length and of any letters in a moment', () => {
  const redact = createRedactor(['a-secret-of-this-test'])
  for (const part of ['a', 'a://', 'a://b:', 'a://b:c', ':', '//:'])
    expect(redact(part.repeat(300_000)).length).toBeGreaterThan(0)
  expect(redact('postgres://user:pass@host and "xhttp://u:p@h"')).toBe(
    'postgres://user:[redacted]@host and "xhttp://u:[redacted]@h"',
  )
})
