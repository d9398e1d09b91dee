import { expect, test } from 'vitest'
import { showInColumns } from '../../src/cli/demo/columns.ts'
import { wrap } from '../../src/cli/demo/wrap.ts'
import type { Out } from '../../src/cli/io.ts'
import { widthOf } from '../../src/cli/width.ts'
import { type Act, Show } from '../../src/demo/show.ts'

const WIDTH = 100

function terminal(hasColours: boolean): { out: Out; printed: () => string } {
  let text = ''
  const out: Out = {
    isTerminal: true,
    hasColours,
    columns: () => WIDTH,
    rows: () => 40,
    async write(data) {
      text += data
    },
  }
  return { out, printed: () => text }
}

function playedThrough(show: Show): void {
  const act = show.acts[0] as Act
  show.begin(act)
  show.step(act, 'usual', 'bad', 'It is gone, and its row says that it sleeps, which is not so.')
  show.step(act, 'sandman', 'good', 'It runs.')
  show.judge(act, 'usual', { asExpected: true, text: 'lost.', facts: {} })
  show.judge(act, 'sandman', { asExpected: true, text: 'nothing lost.', facts: {} })
}

const PLAY = { letter: 'A', title: 'Something happens', happened: 'It happened to somebody. '.repeat(8).trim() }

test('on a terminal both columns stand beside each other, no wider than it is', async () => {
  const { out, printed } = terminal(false)
  const show = new Show([PLAY])
  const shown = showInColumns(show, out)
  playedThrough(show)
  await shown.end()
  // What is drawn anew is cleared; what stays is what was written last, without any of the terminal's words.
  const lines = (printed().split('\x1b[?25h').at(-1) ?? '').split('\n')
  expect(lines.every((line) => widthOf(line) <= WIDTH)).toBe(true)
  expect(lines.some((line) => /^THE USUAL CODE +│ SANDMAN/.test(line))).toBe(true)
  expect(lines.some((line) => /^✗ It is gone.* │ ✓ It runs\. /.test(line))).toBe(true)
  expect(lines.some((line) => line.includes('FAILED: lost.'))).toBe(true)
  expect(lines.join('\n')).not.toContain('\x1b')
})

test('colours are beside the words, where there are any', async () => {
  const { out, printed } = terminal(true)
  const show = new Show([PLAY])
  const shown = showInColumns(show, out)
  playedThrough(show)
  await shown.end()
  expect(printed()).toContain('\x1b[32m✓ It runs.\x1b[39m')
})

test('it went as expected only when every column has', () => {
  const show = new Show([PLAY, { ...PLAY, letter: 'B' }])
  playedThrough(show)
  expect([show.isOver, show.wasAsExpected]).toEqual([false, false])
  const second = show.acts[1] as Act
  show.judge(second, 'usual', { asExpected: true, text: '', facts: {} })
  show.judge(second, 'sandman', { asExpected: false, text: '', facts: {} })
  expect([show.isOver, show.wasAsExpected]).toEqual([true, false])
})

test('lines are wrapped at words, and a word that is too long is cut', () => {
  expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
  expect(wrap('unbreakable', 5)).toEqual(['unbr…'])
})
