/** More typing errors than this are another word. */
const ERRORS_MAX = 3

/** The name that somebody meant who has misspelt it, if there is one. */
export function nearest(given: string, names: readonly string[]): string | undefined {
  // Of a short word, three letters are most of it.
  const errorsMax = Math.min(ERRORS_MAX, Math.ceil(given.length / 3))
  const [first] = names
    .map((name) => ({ name, errors: editDistance(given, name) }))
    .filter(({ errors }) => errors <= errorsMax)
    .sort((a, b) => a.errors - b.errors)
  return first?.name
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replace = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min(replace, (previous[j] as number) + 1, (row[j - 1] as number) + 1))
    }
    previous = row
  }
  return previous[b.length] as number
}
