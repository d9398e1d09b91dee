import { expect, test } from 'vitest'
import { SafeOutput } from '../../src/cli/safe-output.ts'

function pass(...pieces: (string | Uint8Array)[]): string {
  const safe = new SafeOutput()
  return pieces.map((piece) => safe.pass(Buffer.from(piece as string))).join('') + safe.end()
}

test('text, colours, and what progress bars are made of pass', () => {
  expect(pass('a\tb\r\nc\b é 日本')).toBe('a\tb\r\nc\b é 日本')
  expect(pass('\x1b[31mred\x1b[0m\r50%\x1b[K')).toBe('\x1b[31mred\x1b[0m\r50%\x1b[K\x1b[0m')
  expect(pass('\x1b[38;2;1;2;3mx')).toBe('\x1b[38;2;1;2;3mx\x1b[0m')
})

test.each([
  ['a window’s title', '\x1b]0;pwned\x07'],
  ['the clipboard', '\x1b]52;c;cm0gLXJm\x1b\\'],
  ['a link', '\x1b]8;;file:///etc/passwd\x1b\\'],
  ['a question that the terminal would answer by typing', '\x1b[6n\x1b[c\x1b[>c\x1b[21t\x1bP+q544e\x1b\\\x1bZ'],
  ['the cursor and the screen', '\x1b[2J\x1b[H\x1b[10A\x1b[?1049h\x1b7\x1b8\x1bc'],
  ['the alphabet', '\x1b(0\x0e'],
  ['eight-bit controls', '\x9b2J\x9d0;x\x9c\x85'],
  ['a colour that is none', '\x1b[?31m\x1b[>4;2m\x1b[31 m'],
  ['a sequence without end', `\x1b[${'1;'.repeat(1_000)}m`],
  ['the bell and the rest of the controls', '\x07\x00\x01\x7f'],
])('%s is left alone', (_what, sequence) => {
  expect(pass(`a${sequence}b`)).toBe('ab')
})

test('a sequence that comes in pieces is still one, and so is a letter', () => {
  expect(pass('a\x1b', ']0;ti', 'tle', '\x1b', '\\b')).toBe('ab')
  expect(pass('a\x1b[', '3', '1mb')).toBe('a\x1b[31mb\x1b[0m')
  const letter = Buffer.from('日')
  expect(pass(letter.subarray(0, 1), letter.subarray(1))).toBe('日')
})

test('one that is never closed hides no more than its line', () => {
  expect(pass('a\x1b]0;hidden\nb')).toBe('a\nb')
})
