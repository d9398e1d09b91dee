/** One word of a shell script, whatever it contains, except for NUL. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}

/** The same for people: in quotes only where it needs them. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : quote(word)
}
