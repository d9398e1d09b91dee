import { describe, expect, test } from 'vitest'
import { LogLines } from '../../../src/backends/kubernetes/log.ts'
import { type LogLine, LogReader, positionOf } from '../../../src/backends/log-position.ts'
import { timestamp } from '../../support/kubernetes/log-streams.ts'

const S = 1_000_000_000n
const T = 1_790_000_000n * S
const CONTAINER = '0b7f3c1e-58a5-4c61-9d2e-0e6f6a4c1d11'

type Entry = { atNs: bigint; text: string; isPartial?: boolean }

/** As a node gives it: from whole seconds on, and with a moment only where a line begins. */
function given(entries: readonly Entry[], sinceNs = 0n): Buffer {
  let isNewLine = true
  let text = ''
  for (const { atNs, text: said, isPartial = false } of entries) {
    if (atNs >= (sinceNs / S) * S) text += `${isNewLine ? `${timestamp(atNs)} ` : ''}${said}${isPartial ? '' : '\n'}`
    isNewLine = !isPartial
  }
  return Buffer.from(text)
}

function linesOf(pieces: Iterable<Buffer>, mayBeginWithin = false): LogLine[] {
  const lines = new LogLines({ mayBeginWithin })
  return [...pieces].flatMap((piece) => [...lines.read(piece)])
}

const textOf = (lines: readonly LogLine[]) => Buffer.concat(lines.map(({ bytes }) => bytes)).toString()

/** What a reader makes of so many bytes of a log, asked for from its cursor on. */
function read(entries: readonly Entry[], cursor: string | undefined, bytesMax = Number.POSITIVE_INFINITY, step = 7) {
  const reader = new LogReader(positionOf(CONTAINER, cursor))
  reader.rewind()
  const bytes = given(entries, reader.sinceNs).subarray(0, bytesMax)
  const pieces = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) =>
    bytes.subarray(at * step, (at + 1) * step),
  )
  const heard: Buffer[] = []
  for (const line of linesOf(pieces, reader.sinceNs > 0n)) {
    let fresh = reader.read(line)
    if (reader.hasLostItsPlace) {
      heard.push(Buffer.from('[lost]'))
      fresh = reader.beginAnew(line)
    }
    heard.push(fresh)
  }
  const heardBytes = Buffer.concat(heard)
  return {
    bytes: heardBytes,
    text: heardBytes.toString(),
    cursor: reader.cursor,
    sinceNs: reader.sinceNs,
    hasCaughtUp: reader.hasCaughtUp,
    size: bytes.length,
  }
}

const LOG: Entry[] = [
  { atNs: T, text: 'one' },
  { atNs: T, text: 'two, of the same moment' },
  { atNs: T + 5n, text: '' },
  { atNs: T + 5n, text: 'a long line, of which ', isPartial: true },
  { atNs: T + 6n, text: 'the rest comes later' },
  { atNs: T + 2n * S, text: '2026-11-17T09:30:00.000000000Z is what it says' },
  { atNs: T + 2n * S + 1n, text: 'ü' },
  { atNs: T + 3n * S, text: 'without an end', isPartial: true },
]
const TEXT =
  'one\ntwo, of the same moment\n\na long line, of which the rest comes later\n2026-11-17T09:30:00.000000000Z is what it says\nü\nwithout an end'

describe('the lines of a log', () => {
  test('are the same wherever it is cut', () => {
    const whole = given(LOG)
    for (let cut = 0; cut <= whole.length; cut++)
      expect(textOf(linesOf([whole.subarray(0, cut), whole.subarray(cut)])), `cut at ${cut}`).toBe(TEXT)
    expect(textOf(linesOf([...whole].map((byte) => Buffer.from([byte]))))).toBe(TEXT)
  })

  test('have the moment of their beginning, also those parts that come later', () => {
    const lines = linesOf([given(LOG)])
    expect(lines.map(({ atNs }) => atNs - T)).toEqual([0n, 0n, 5n, 5n, 2n * S, 2n * S + 1n, 3n * S])
    expect(lines.at(-1)?.isOpen).toBe(true)
  })

  test.each([
    ['with a zone', '2026-09-21T15:33:20.5+01:00 said', 500_000_000n],
    ['of whole seconds', '2026-09-21T14:33:20Z said', 0n],
  ])('may have a moment %s', (_how, line, fractionNs) => {
    const [{ atNs, bytes }] = linesOf([Buffer.from(`${line}\n`)]) as [LogLine]
    expect(`${bytes}`).toBe('said\n')
    expect(atNs % S).toBe(fractionNs)
    expect(atNs / S).toBe(BigInt(Date.parse('2026-09-21T14:33:20Z') / 1000))
  })

  test('of two outputs may be glued together, when one of them has not come to its end', () => {
    const glued: Entry[] = [
      { atNs: T, text: 'out: 50%', isPartial: true },
      { atNs: T + 1n, text: 'err: oops' },
      { atNs: T + 2n, text: 'out again' },
    ]
    expect(textOf(linesOf([given(glued)]))).toBe('out: 50%err: oops\nout again\n')
  })

  test('may begin within one, of which the beginning was not asked for; and only then', () => {
    const rest = given(LOG, 0n).subarray(given(LOG.slice(0, 4)).length)
    expect(textOf(linesOf([rest], true))).toBe(`${TEXT.slice(TEXT.indexOf('2026-'))}`)
    for (const foreign of [
      rest,
      Buffer.from('unable to retrieve container logs for containerd://0b7f\n'),
      Buffer.from('\n'),
    ])
      expect(() => linesOf([foreign])).toThrow(/without its moment/)
    expect(() => linesOf([Buffer.from(`rest\n${'x'.repeat(40)}`)], true)).toThrow(/without its moment/)
  })
})

describe('a cursor', () => {
  test('goes on right behind what was read, wherever the log was cut, twice (incident R)', () => {
    const { size } = read(LOG, undefined)
    for (let first = 0; first <= size; first++) {
      const head = read(LOG, undefined, first)
      for (const second of [first, first + 1, first + 30, first + 61]) {
        const middle = read(LOG, head.cursor, second)
        if (!middle.hasCaughtUp) continue
        const tail = read(LOG, middle.cursor)
        const heard = Buffer.concat([head.bytes, middle.bytes, tail.bytes])
        expect(heard.toString(), `cut at ${first} and ${second}`).toBe(TEXT)
      }
    }
  })

  test('tells what has come since, in the same second, and of the same moment', () => {
    let log: Entry[] = []
    let cursor: string | undefined
    for (let at = 0; at < 60; at++) {
      log = [...log, { atNs: T + BigInt(at >> 2), text: `line ${at}` }]
      const { text, cursor: next } = read(log, cursor)
      expect(text).toBe(`line ${at}\n`)
      cursor = next
    }
  })

  test('moves on, so that a long log is not read from its beginning', () => {
    const log = Array.from({ length: 1_000 }, (_, at) => ({ atNs: T + BigInt(at) * S + 7n, text: `line ${at}` }))
    let whole = ''
    let cursor: string | undefined
    for (let upTo = 10; upTo <= log.length; upTo += 10) {
      const { text, cursor: next } = read(log.slice(0, upTo), cursor, undefined, 1_000)
      whole += text
      cursor = next
    }
    expect(whole).toBe(log.map(({ text }) => `${text}\n`).join(''))
    expect(read(log, cursor).size).toBeLessThan(130 * 45)
  })

  test('says when the node has thrown away what was counted, and then repeats nothing', () => {
    const log = Array.from({ length: 9 }, (_, at) => ({ atNs: T + BigInt(at), text: `line ${at}` }))
    const { cursor } = read(log.slice(0, 6), undefined)
    // All that was read is still there, but for its beginning.
    const { text, cursor: next } = read(log.slice(2), cursor)
    expect(text).toBe('[lost]line 6\nline 7\nline 8\n')
    // What follows is found as ever.
    expect(read([...log.slice(2), { atNs: T + 20n, text: 'more' }], next).text).toBe('more\n')
    // And of what was never read, some is gone.
    expect(read(log.slice(8), cursor).text).toBe('[lost]line 8\n')
  })

  test('that comes from before that was known has no more than its beginning to go by', () => {
    const log = Array.from({ length: 4 }, (_, at) => ({ atNs: T + BigInt(at), text: `line ${at}` }))
    const old = read(log.slice(0, 2), undefined).cursor.replace(/~\d+$/, '')
    expect(read(log, old).text).toBe('line 2\nline 3\n')
    expect(read(log.slice(1), old).text).toBe('[lost]line 1\nline 2\nline 3\n')
  })

  test('of another container is refused', () => {
    const { cursor } = read(LOG, undefined)
    expect(() => positionOf(`${CONTAINER}-1`, cursor)).toThrow(/No output/)
    for (const wrong of ['', 'x', `${CONTAINER}.1`, `${CONTAINER}.1.2~`, `${CONTAINER}.1.2~3~`])
      expect(() => positionOf(CONTAINER, wrong), wrong).toThrow(/No output/)
  })
})
