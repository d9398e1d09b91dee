import { expect, test } from 'vitest'
import { EndMark } from '../../../src/backends/shell/end-mark.ts'

/** Reads it in pieces of this size, and tells what was shown up to the end. */
function read(mark: EndMark, text: string, size: number) {
  const bytes = Buffer.from(text)
  let shown = ''
  for (let from = 0; from < bytes.length; from += size) {
    const piece = mark.read(bytes.subarray(from, from + size))
    shown += piece.shown
    if (piece.exitCode !== undefined) return { shown, exitCode: piece.exitCode }
  }
  return { shown, exitCode: undefined }
}

const sizes = Array.from({ length: 50 }, (_, nth) => nth + 1)

test.each(['\x01mark ', '#mark '])('what is said, and how it ended, are the same however they are cut (%j)', (word) => {
  const first = word.slice(0, 1)
  const said = `${first}${first}${word.slice(0, 3)}${word.slice(0, -1)}! ${first}ma\n${first}`
  for (const size of sizes)
    expect(read(new EndMark(word), `${said}${word}17\n`, size)).toEqual({ shown: said, exitCode: 17 })
})

test('of what is cut off before its end, nothing but the beginning of a mark is held back', () => {
  for (const size of sizes) {
    expect(read(new EndMark('#mark '), 'all of it ##', size)).toEqual({ shown: 'all of it #', exitCode: undefined })
    expect(read(new EndMark('#mark '), 'all of it#mark 1', size)).toEqual({ shown: 'all of it', exitCode: undefined })
  }
})

test('no two scripts have the same mark', () => {
  expect(new EndMark().word).not.toBe(new EndMark().word)
})
