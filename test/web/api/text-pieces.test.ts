import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { OutputPiece } from '../../../src/fleet/output.ts'
import { type TextPiece, textPieces } from '../../../src/web/api/text-pieces.ts'
import { check } from '../../support/property.ts'

async function* cut(bytes: Uint8Array, at: number[]): AsyncGenerator<OutputPiece, void> {
  const places = [...new Set([0, ...at.map((place) => place % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b)
  for (const [nth, from] of places.entries()) {
    const to = places[nth + 1]
    if (to !== undefined) yield { from, to, bytes: bytes.subarray(from, to) }
  }
}

async function all(pieces: AsyncIterable<OutputPiece>): Promise<TextPiece[]> {
  const read: TextPiece[] = []
  for await (const piece of textPieces(pieces)) read.push(piece)
  return read
}

const decode = (bytes: Uint8Array) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)

test('wherever it is cut, all bytes are told of, in order, and the text is the same', async () => {
  const bytes = fc.oneof(
    fc.string({ unit: 'binary' }).map((text) => new Uint8Array(Buffer.from(text))),
    fc.uint8Array({ maxLength: 40 }),
    fc
      .array(fc.constantFrom(0x41, 0x80, 0xbf, 0xc3, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0xff), { maxLength: 20 })
      .map((bytes) => new Uint8Array(bytes)),
  )
  const cuts = fc.record({ bytes, at: fc.array(fc.nat(60), { maxLength: 12 }), left: fc.nat() })
  const property = fc.asyncProperty(cuts, async ({ bytes, at, left }) => {
    const read = await all(cut(bytes, at))
    const ends = read.map(({ to }) => to)
    expect(read.map(({ text }) => text).join('')).toBe(decode(bytes))
    expect(read.map(({ from }) => from)).toEqual([0, ...ends].slice(0, read.length))
    expect(ends.at(-1) ?? 0).toBe(bytes.length)
    // Whoever comes back behind any piece reads the rest as it would have been.
    const seen = read.slice(0, left % (read.length + 1))
    const rest = await all(cut(bytes.subarray(seen.at(-1)?.to ?? 0), []))
    expect([...seen, ...rest].map(({ text }) => text).join('')).toBe(decode(bytes))
  })
  await check(property, { runs: 300 })
})

test('a character that is cut is held back until it is whole', async () => {
  const snowman = Buffer.from('☃')
  expect(await all(cut(Buffer.concat([Buffer.from('a'), snowman]), [2]))).toEqual([
    { from: 0, to: 1, text: 'a' },
    { from: 1, to: 4, text: '☃' },
  ])
})

test('what stands before a gap is not made whole by what stands behind it', async () => {
  async function* pruned(): AsyncGenerator<OutputPiece, void> {
    yield { from: 0, to: 2, bytes: Buffer.from([0x61, 0xe2]) }
    yield { from: 10, to: 12, bytes: Buffer.from([0x98, 0x62]) }
  }
  expect(await all(pruned())).toEqual([
    { from: 0, to: 1, text: 'a' },
    { from: 1, to: 2, text: '�' },
    { from: 10, to: 12, text: '�b' },
  ])
})
