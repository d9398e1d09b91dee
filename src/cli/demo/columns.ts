import { type Act, type Column, type Show, SIDE_NAMES, SIDES, type Side } from '../../demo/show.ts'
import { Frame } from '../frame.ts'
import type { Out } from '../io.ts'
import { type Colour, paint } from '../paint.ts'
import { widthOf } from '../width.ts'
import { MARKS, seconds, wordOf } from './marks.ts'
import { wrap } from './wrap.ts'

/** Wider lines are harder to read. */
const WIDTH_MAX = 150
const GUTTER = ' │ '
const EVERY_MS = 120
const SPINNER = ['◐', '◓', '◑', '◒']

type Line = { text: string; colour?: Colour | undefined }

/** Both columns of an act beside each other, drawn anew with every step. One that is over stays, and the next is drawn below it. */
export function showInColumns(show: Show, out: Out): { end(): Promise<void> } {
  let current: { act: Act; frame: Frame } | undefined
  let turn = Promise.resolve()

  const draw = async () => {
    for (const act of show.acts) {
      if (act.state === 'waiting' || (current && show.acts.indexOf(act) < show.acts.indexOf(current.act))) continue
      if (current?.act !== act) {
        if (current) await finish(current)
        current = { act, frame: new Frame(out) }
      }
      if (act.state === 'playing') await current.frame.draw([...headOf(show, act, out), ...bodyOf(act, out)])
    }
  }
  /** What is over is printed as a whole, also what the height had no room for. */
  const finish = async ({ act, frame }: { act: Act; frame: Frame }) => {
    await frame.clear()
    await frame.end()
    await out.write(`${[...headOf(show, act, out), ...bodyOf(act, out)].join('\n')}\n\n`)
  }
  const inTurn = () => {
    turn = turn.then(draw)
  }
  const over = new AbortController()
  show.onChange(inTurn, { signal: over.signal })
  const spinning = setInterval(inTurn, EVERY_MS)
  inTurn()
  return {
    async end() {
      over.abort()
      clearInterval(spinning)
      await turn
      await draw()
      if (current) await finish(current)
    },
  }
}

const widthOfPage = (out: Out) => Math.min(out.columns(), WIDTH_MAX)

function headOf(show: Show, act: Act, out: Out): string[] {
  const { hasColours } = out
  const nth = `${show.acts.indexOf(act) + 1} of ${show.acts.length}`
  const title = `${act.letter}  ${act.title}`
  const gap = ' '.repeat(Math.max(1, widthOfPage(out) - widthOf(title) - nth.length))
  return [
    `${paint(title, 'bold', hasColours)}${gap}${paint(nth, 'dim', hasColours)}`,
    ...wrap(act.happened, widthOfPage(out) - 3).map((line) => `   ${paint(line, 'dim', hasColours)}`),
    '',
  ]
}

function bodyOf(act: Act, out: Out): string[] {
  const width = Math.floor((widthOfPage(out) - GUTTER.length) / 2)
  const laid = SIDES.map((side) => layColumn(act, side, width))
  const height = Math.max(...laid.map(({ length }) => length))
  return Array.from({ length: height }, (_, row) =>
    laid
      .map((lines) => filled(lines[row] ?? { text: '' }, width, out.hasColours))
      .join(paint(GUTTER, 'dim', out.hasColours)),
  )
}

function layColumn(act: Act, side: Side, width: number): Line[] {
  const column = act.columns[side]
  return [
    { text: SIDE_NAMES[side].toUpperCase(), colour: 'bold' },
    ...column.steps.flatMap(({ mark, text }): Line[] => {
      const { sign, colour } = MARKS[mark]
      return hung(`${sign} `, text, width).map((line) => ({ text: line, colour: mark === 'did' ? undefined : colour }))
    }),
    ...endOf(act, side, column, width),
  ]
}

function endOf(act: Act, side: Side, { verdict }: Column, width: number): Line[] {
  if (!verdict) {
    const elapsedMs = performance.now() - act.begunMs
    const sign = SPINNER[Math.floor(elapsedMs / EVERY_MS) % SPINNER.length]
    return [{ text: `${sign} ${seconds(elapsedMs)}`, colour: 'dim' }]
  }
  const { text, colour } = wordOf(side, verdict)
  return hung('  ', `${text}: ${verdict.text}`, width).map((line) => ({ text: line, colour }))
}

/** With a sign before the first line, and the others below its text. */
function hung(sign: string, text: string, width: number): string[] {
  const indent = ' '.repeat(widthOf(sign))
  return wrap(text, width - widthOf(sign)).map((line, nth) => `${nth === 0 ? sign : indent}${line}`)
}

function filled({ text, colour }: Line, width: number, hasColours: boolean): string {
  return `${paint(text, colour, hasColours)}${' '.repeat(Math.max(0, width - widthOf(text)))}`
}
