const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** Letters of East Asia and pictures, which take two places. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const NOTHING = /^[\p{Mn}\p{Me}\p{Cf}]+$/u
const PLAIN = /^[\x20-\x7e]*$/

/** How many places text takes on a terminal. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += placesOf(segment)
  return width
}

const placesOf = (grapheme: string) => (NOTHING.test(grapheme) ? 0 : WIDE.test(grapheme) ? 2 : 1)

/** At most so wide; what is cut off is shown to be. */
export function cut(text: string, widthMax: number): string {
  if (widthOf(text) <= widthMax) return text
  let kept = ''
  let width = 0
  for (const { segment } of graphemes.segment(text)) {
    width += placesOf(segment)
    if (width > widthMax - 1) break
    kept += segment
  }
  return widthMax > 0 ? `${kept}…` : ''
}
