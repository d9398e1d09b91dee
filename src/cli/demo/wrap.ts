import { cut, widthOf } from '../width.ts'

/** Lines of whole words, none wider than this; a word that is wider alone is cut. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)
    if (last !== undefined && widthOf(last) + 1 + widthOf(word) <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(cut(word, width))
  }
  return lines
}
