import { type Show, SIDES } from '../../demo/show.ts'
import type { Out } from '../io.ts'
import { paint } from '../paint.ts'
import { layTable } from '../table.ts'
import { wordOf } from './marks.ts'

/** What was shown. */
export function summary(show: Show, { hasColours, columns }: Pick<Out, 'hasColours' | 'columns'>): string {
  const rows = show.acts.map(({ letter, title, columns }) => [
    { text: `${letter}  ${title}` },
    ...SIDES.map((side) => {
      const { verdict } = columns[side]
      return verdict ? wordOf(side, verdict) : { text: 'not played' }
    }),
  ])
  const table = layTable(
    [{ title: 'What was shown', canShrink: true }, { title: 'the usual code' }, { title: 'Sandman' }],
    rows,
    {
      width: columns(),
      hasColours,
    },
  )
  const count = show.acts.length
  const last = show.wasAsExpected
    ? `Seen with real processes, in rows and folders: ${count === 1 ? 'it' : `each of the ${count}`} happened to the usual code, and not to Sandman.`
    : 'Not everything went as it should have: what is said above tells what was seen.'
  return `${table.join('\n')}\n\n${paint(last, show.wasAsExpected ? 'green' : 'red', hasColours)}\nHow it is made: docs/demo.md. To go on: npm start, or npx sandman dev.`
}
