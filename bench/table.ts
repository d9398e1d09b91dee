import type { Row } from './section.ts'

/** For people, with its head. */
export function tableOf(rows: readonly Row[]): string[][] {
  return [['figure', 'value', 'beside', 'ratio', 'goal', 'note'], ...rows.map(cellsOf)]
}

/** Undefined when there is no goal. */
function isMet({ value, ratio = value, goal }: Row): boolean | undefined {
  if (!goal) return undefined
  return 'atLeast' in goal ? ratio >= goal.atLeast : ratio <= goal.atMost
}

function cellsOf(row: Row): string[] {
  const { figure, value, unit, limit, note = '', ratio, goal } = row
  const wanted = goal && ('atLeast' in goal ? `≥ ${goal.atLeast}` : `≤ ${goal.atMost}`)
  return [
    figure,
    withUnit(value, unit),
    limit === undefined ? '' : withUnit(limit, unit),
    ratio === undefined ? '' : String(ratio),
    wanted === undefined ? '' : `${wanted} ${isMet(row) ? 'met' : 'missed'}`,
    note,
  ]
}

function withUnit(value: number, unit: string): string {
  return unit === '' ? String(value) : `${value} ${unit}`
}
