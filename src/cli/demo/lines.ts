import { type Act, type Show, SIDE_NAMES, SIDES, type Side } from '../../demo/show.ts'
import type { Out } from '../io.ts'
import { paint } from '../paint.ts'
import { MARKS, seconds, wordOf } from './marks.ts'

const NAME_WIDTH = Math.max(...SIDES.map((side) => SIDE_NAMES[side].length))
const TIME_WIDTH = 7

/** A line for each step, in the order in which they happen: for pipes, logs and narrow terminals. */
export function showAsLines(show: Show, out: Out): { end(): Promise<void> } {
  const { hasColours } = out
  const begun = new Set<Act>()
  const printed = new Map<unknown, number>()
  let writing = Promise.resolve()
  const print = (line: string) => {
    writing = writing.then(() => out.write(`${line}\n`))
  }
  const named = (side: Side) => SIDE_NAMES[side].padEnd(NAME_WIDTH)

  const catchUp = () => {
    for (const act of show.acts) {
      if (act.state === 'waiting') continue
      if (!begun.has(act)) {
        begun.add(act)
        print(`${paint(`${act.letter}  ${act.title}`, 'bold', hasColours)}\n   ${act.happened}\n`)
      }
      for (const side of SIDES) {
        const column = act.columns[side]
        for (const { atMs, mark, text } of column.steps.slice(printed.get(column) ?? 0)) {
          const { sign, colour } = MARKS[mark]
          print(`   ${seconds(atMs).padStart(TIME_WIDTH)}  ${named(side)}  ${paint(sign, colour, hasColours)} ${text}`)
        }
        printed.set(column, column.steps.length)
        if (!column.verdict || printed.has(column.verdict)) continue
        printed.set(column.verdict, 1)
        const word = wordOf(side, column.verdict)
        const text = `${paint(word.text, word.colour, hasColours)}: ${column.verdict.text}`
        print(`   ${' '.repeat(TIME_WIDTH)}  ${named(side)}  ${text}`)
      }
      if (act.state === 'over' && !printed.has(act)) {
        printed.set(act, 1)
        print('')
      }
    }
  }
  const over = new AbortController()
  show.onChange(catchUp, { signal: over.signal })
  catchUp()
  return {
    async end() {
      over.abort()
      await writing
    },
  }
}
