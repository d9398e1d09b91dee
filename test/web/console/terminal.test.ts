import { expect, test } from 'vitest'
import { shown } from '../../../src/web/console/shown.ts'
import { allReadable, readable } from '../../../src/web/console/terminal.ts'

const ESC = '\u001b'
const bytes = (text: string) => Buffer.from(text)

test.each([
  ['colours', `${ESC}[1;31mred${ESC}[0m`, 'red'],
  ['cursor moves and a cleared screen', `${ESC}[2J${ESC}[1;1Hhome${ESC}[K`, 'home'],
  ['a title', `${ESC}]0;evil title\u0007text`, 'text'],
  ['a link', `${ESC}]8;;https://evil.example${ESC}\\click${ESC}]8;;${ESC}\\`, 'click'],
  ['a device control string', `${ESC}Pq#0;2;0;0;0${ESC}\\text`, 'text'],
  ['an eight-bit sequence', '\u009b31mred', 'red'],
  ['line ends of all kinds', 'a\r\nb\rc\n', 'a\nb\nc\n'],
  ['a bell and a backspace', 'a\u0007b\u0008c', 'a[U+0007]b[U+0008]c'],
  ['text that is turned around', 'safe\u202egnp.exe', 'safe[U+202E]gnp.exe'],
  ['what has no width', 'pay\u200bpal\ufeff', 'pay[U+200B]pal[U+FEFF]'],
  ['markup', '<script>alert(1)</script>', '<script>alert(1)</script>'],
  ['letters of all the world', 'Grüße 你好 שלום 👋🏽', 'Grüße 你好 שלום 👋🏽'],
])('%s: what is left is text, and nothing else', (_what, given, expected) => {
  expect(allReadable(bytes(given))).toBe(expected)
})

test('wherever output is cut, the pieces together are the whole', () => {
  const whole = `Grüße 你好 👋 ${ESC}[1;31mred${ESC}[0m\r\nnext ${ESC}]8;;https://x${ESC}\\link${ESC}]8;;${ESC}\\ end\n`
  const all = bytes(whole)
  for (let size = 1; size <= 9; size++) {
    let rest: Uint8Array = new Uint8Array()
    let text = ''
    for (let at = 0; at < all.length; at += size) {
      const pending = Buffer.concat([rest, all.subarray(at, at + size)])
      const { text: piece, length } = readable(pending)
      text += piece
      rest = pending.subarray(length)
    }
    expect(text + allReadable(rest), `in pieces of ${size}`).toBe(allReadable(all))
  }
})

test('what is never finished is not waited for', () => {
  const endless = bytes(`${ESC}]0;${'x'.repeat(5_000)}`)
  expect(readable(endless).length).toBe(endless.length)
  expect(readable(Buffer.from([0x80, 0x80, 0x80, 0x80])).length).toBe(4)
})

test('a long text is cut between characters', () => {
  expect(shown('👋'.repeat(10), 5)).toBe('👋👋…')
})
