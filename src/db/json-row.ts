/**
 * Several rows of different tables come back from one statement as JSON, to save a round trip. There, times are text: this
 * makes them times again, in place. By the schema's rule, a column is a time when its name ends in `_at`.
 */
export function fromJson<Row>(json: Record<string, unknown>): Row {
  for (const column of Object.keys(json)) {
    const value = json[column]
    if (typeof value === 'string' && column.endsWith('_at')) json[column] = new Date(value)
  }
  return json as Row
}
