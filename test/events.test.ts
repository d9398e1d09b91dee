import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from 'vitest'
import { type Event, Events } from '../src/events.ts'
import { RecordedEvents } from './support/events.ts'

describe('a listener that fails', () => {
  let warned: MockInstance<typeof process.emitWarning>
  beforeEach(() => {
    warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  })
  afterEach(() => warned.mockRestore())

  const FAILING: [how: string, listener: (event: Event) => void][] = [
    [
      'throws',
      () => {
        throw new Error('no room in the log')
      },
    ],
    ['rejects', async () => Promise.reject(new Error('no room in the log'))],
  ]

  test.each(FAILING)(
    'and %s changes nothing for who emits, nor for who else listens, and is told of once',
    async (_how, listener) => {
      const events = new Events()
      events.subscribe(listener)
      const others = new RecordedEvents()
      events.subscribe(({ name, fields }) => others.emit(name, fields))
      events.emit('job.started', { jobId: '1' })
      events.emit('job.done', { jobId: '1' })
      const { fields } = await others.until('listener.failed')
      expect(fields).toEqual({ heard: 'job.started', error: new Error('no room in the log') })
      expect(others.happened.map(({ name }) => name).sort()).toEqual(['job.done', 'job.started', 'listener.failed'])
      // An app has no log of ours, and whom it gave us to tell is the one who fails.
      expect(warned.mock.calls).toEqual([
        [
          expect.stringContaining('failed at job.started'),
          { type: 'SandmanWarning', detail: expect.stringContaining('no room in the log') },
        ],
      ])
    },
  )

  test('goes on being told, and is not the end of it that another one fails at hearing so', () => {
    const events = new Events()
    const told: string[] = []
    for (const who of ['one', 'other'])
      events.subscribe(({ name }) => {
        told.push(`${who} ${name}`)
        throw new Error(who)
      })
    events.emit('job.started')
    events.emit('job.done')
    expect(told.filter((each) => each.includes('job.'))).toEqual([
      'one job.started',
      'other job.started',
      'one job.done',
      'other job.done',
    ])
    expect(told.filter((each) => each.endsWith('listener.failed'))).toHaveLength(4)
  })
})
