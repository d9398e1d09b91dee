const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\x1b': '\\e' }

/** What moves a cursor, rings, hides text or turns it round: controls, line ends, and the marks that change the direction. */
const HARMFUL =
  /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu

/** Text that others have written, on one line, and unable to do anything to a terminal but stand there. */
export function harmless(text: string): string {
  return text
    .toWellFormed()
    .replace(HARMFUL, (letter) => NAMED[letter] ?? `\\u{${(letter.codePointAt(0) as number).toString(16)}}`)
}

/** The same for text of several lines that are ours. */
export function harmlessLines(text: string): string {
  return text.split('\n').map(harmless).join('\n')
}
