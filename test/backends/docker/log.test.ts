import { describe, expect, test } from 'vitest'
import { LineReader } from '../../../src/backends/docker/log-lines.ts'
import { type LogLine, LogReader, positionOf } from '../../../src/backends/log-position.ts'

const ID = '0123456789ab'
const PART = 'x'.repeat(16 * 1024)

/** A log as the engine keeps it: moments in seconds, from two outputs, in the order in which they came to be written. */
type Logged = { at: number; text: string; output?: 1 | 2 }

function framed({ at, text, output = 1 }: Logged): Buffer {
  const moment = new Date(at * 1_000).toISOString().replace('Z', '000001Z')
  const payload = Buffer.from(`${moment} ${text}`)
  const header = Buffer.alloc(8)
  header.writeUInt8(output, 0)
  header.writeUInt32BE(payload.length, 4)
  return Buffer.concat([header, payload])
}

/** What the engine gives of a log from a moment on. */
function given(log: readonly Logged[], since: string): Buffer {
  const [seconds = '', nanoseconds = ''] = since.split('.')
  const sinceNs = Number(seconds) * 1e9 + Number(nanoseconds)
  return Buffer.concat(log.filter(({ at }) => at * 1e9 + 1 >= sinceNs).map(framed))
}

function linesOf(bytes: Buffer, driver = 'local'): LogLine[] {
  return [...new LineReader({ driver }).read(bytes)]
}

/** Reads from a cursor on, and breaks off after so many lines. */
function read(log: readonly Logged[], cursor: string | undefined, linesMax = Number.POSITIVE_INFINITY) {
  const reader = new LogReader(positionOf(ID, cursor))
  const fresh: Buffer[] = []
  for (const line of linesOf(given(log, reader.rewind())).slice(0, linesMax)) fresh.push(reader.read(line))
  return { text: Buffer.concat(fresh).toString(), cursor: reader.cursor, hasCaughtUp: reader.hasCaughtUp }
}

describe('what the engine sends', () => {
  const log: Logged[] = [
    { at: 1, text: 'one\n' },
    { at: 1, text: 'two ü\n', output: 2 },
    { at: 2, text: 'three\n' },
  ]

  test('is understood wherever it is cut', () => {
    const whole = Buffer.concat(log.map(framed))
    const expected = linesOf(whole)
    expect(expected.map(({ bytes }) => bytes.toString())).toEqual(['one\n', 'two ü\n', 'three\n'])
    for (let at = 0; at <= whole.length; at++) {
      const reader = new LineReader({ driver: 'local' })
      const lines = [...reader.read(whole.subarray(0, at)), ...reader.read(whole.subarray(at))]
      expect(lines).toEqual(expected)
    }
  })

  test('and is not the output of a container is refused', () => {
    for (const text of ['<html><body>Welcome</body></html>', '{"message":"page not found"}'])
      expect(() => linesOf(Buffer.from(text))).toThrow(/not the output of a container/)
    const header = Buffer.from([1, 0, 0, 0, 0, 0, 0, 5])
    expect(() => linesOf(Buffer.concat([header, Buffer.from('hello')]))).toThrow(/without its moment/)
    const reader = new LineReader({ driver: 'local' })
    expect([...reader.read(header)]).toEqual([])
    expect(reader.isCut).toBe(true)
  })

  test('gets back the end of a long line, where the engine forgets it', () => {
    const long: Logged[] = [
      { at: 1, text: PART },
      { at: 2, text: 'beside\n', output: 2 },
      { at: 1, text: 'rest' },
      { at: 3, text: 'short, without an end' },
    ]
    const said = (driver: string) => linesOf(given(long, '0'), driver).map(({ bytes }) => bytes.toString().slice(-12))
    expect(said('local')).toEqual([PART.slice(-12), 'beside\n', 'rest\n', 'ithout an end'.slice(-12)])
    expect(said('json-file')).toEqual([PART.slice(-12), 'beside\n', 'rest', 'ithout an end'.slice(-12)])
  })
})

describe('a cursor', () => {
  test('is a place in the log, whatever came late', () => {
    // Two outputs, read by two hands: moments are not in order, and several are the same.
    const log: Logged[] = [5, 5, 7, 6, 7, 4, 80, 79, 150, 149, 150, 230].map((at, nth) => ({
      at,
      text: `line ${nth}\n`,
      output: nth % 2 === 0 ? 1 : 2,
    }))
    const whole = log.map(({ text }) => text).join('')
    for (let first = 0; first <= log.length; first++) {
      const head = read(log.slice(0, first), undefined)
      expect(head.text).toBe(whole.slice(0, head.text.length))
      for (let second = 0; second <= log.length - first; second++) {
        const middle = read(log.slice(0, first + second), head.cursor)
        const tail = read(log, middle.cursor)
        expect(head.text + middle.text + tail.text).toBe(whole)
      }
    }
  })

  test('moves on with the log, so that what was read long ago is not read again', () => {
    const log = Array.from({ length: 500 }, (_, nth) => ({ at: nth, text: `${nth}\n` }))
    const { cursor } = read(log, undefined)
    expect(linesOf(given(log, new LogReader(positionOf(ID, cursor)).rewind())).length).toBeLessThan(130)
    expect(read([...log, { at: 500, text: 'more\n' }], cursor).text).toBe('more\n')
  })

  test('waits for the rest of a long line, which has the moment of its beginning', () => {
    const log: Logged[] = [
      { at: 1, text: PART },
      ...Array.from({ length: 300 }, (_, nth) => ({ at: 2 + nth, text: `${nth}\n`, output: 2 as const })),
    ]
    const { cursor } = read(log, undefined)
    expect(read([...log, { at: 1, text: 'the rest' }], cursor).text).toBe('the rest\n')
  })

  test('of another container, or of nothing, is refused; and so is one behind the end', () => {
    for (const cursor of [
      '',
      'x',
      '1',
      `${ID}.1`,
      `${ID}.-1.1`,
      `${ID}.1.1.1`,
      'ba9876543210.0.0',
      `${ID}.0.${'9'.repeat(16)}`,
    ])
      expect(() => positionOf(ID, cursor), cursor).toThrow(/No output/)
    expect(read([{ at: 1, text: 'one\n' }], `${ID}.0.5`)).toMatchObject({ text: '', hasCaughtUp: false })
  })
})
