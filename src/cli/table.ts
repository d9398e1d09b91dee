import { type Colour, paint } from './paint.ts'
import { cut, widthOf } from './width.ts'

export type Cell = { text: string; colour?: Colour | undefined }
export type Column = {
  title: string
  /** May be cut off where the terminal is too narrow. The others are whole, or of no use. */
  canShrink?: boolean
}

const GAP = '  '
/** Less of a column tells nobody anything. */
const SHRUNK_MIN = 8

/** Columns that stand below each other, no wider than what shows them. */
export function layTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width = Number.POSITIVE_INFINITY, hasColours = false, hasTitles = true } = {},
): string[] {
  const titles = columns.map(({ title }): Cell => ({ text: title, colour: 'bold' }))
  const all = hasTitles ? [titles, ...rows] : rows
  const widths = columns.map((_, nth) => Math.max(0, ...all.map((row) => widthOf(row[nth]?.text ?? ''))))
  shrink(columns, widths, width)
  return all.map((row) => layRow(row, widths, width, hasColours))
}

/** Takes what is too much from the widest that may shrink, again and again. */
function shrink(columns: readonly Column[], widths: number[], width: number): void {
  const gaps = GAP.length * (columns.length - 1)
  let excess = widths.reduce((sum, each) => sum + each, gaps) - width
  while (excess > 0) {
    const widest = columns.reduce(
      (best, { canShrink }, nth) =>
        canShrink && (widths[nth] ?? 0) > Math.max(SHRUNK_MIN, widths[best] ?? 0) ? nth : best,
      -1,
    )
    if (widest === -1) return
    const others = columns.flatMap(({ canShrink }, nth) => (canShrink && nth !== widest ? [widths[nth] ?? 0] : []))
    const least = Math.max(SHRUNK_MIN, ...others.filter((other) => other < (widths[widest] as number)))
    const taken = Math.max(1, Math.min(excess, (widths[widest] as number) - least))
    widths[widest] = (widths[widest] as number) - taken
    excess -= taken
  }
}

function layRow(row: readonly Cell[], widths: readonly number[], width: number, hasColours: boolean): string {
  let line = ''
  let places = 0
  for (const [nth, cell] of row.entries()) {
    const gap = nth === 0 ? '' : GAP
    const room = Math.min(widths[nth] ?? 0, width - places - gap.length)
    if (room <= 0) break // it is too narrow for all of them
    const text = cut(cell.text, room)
    const isLast = row.slice(nth + 1).every((next) => next.text === '')
    line += gap + paint(text, cell.colour, hasColours) + (isLast ? '' : ' '.repeat(room - widthOf(text)))
    places += gap.length + room
    if (isLast) break
  }
  return line
}
