/**
 * Several rows of different tables come back from one statement as JSON, to save a round trip. There, times are text: this
 * makes them times again. By the schema's rule, a column is a time when its name ends in `_at`.
 */
export function fromJson<Row>(json: Record<string, unknown>): Row {
  const entries = Object.entries(json).map(([column, value]) => [
    column,
    column.endsWith('_at') && typeof value === 'string' ? new Date(value) : value,
  ])
  return Object.fromEntries(entries) as Row
}
