import { UNSEEN } from '../unseen.ts'

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\x1b': '\\e' }

/** Text that others have written, on one line, and unable to do anything to a terminal but stand there. */
export function harmless(text: string): string {
  return text
    .toWellFormed()
    .replace(UNSEEN, (letter) => NAMED[letter] ?? `\\u{${(letter.codePointAt(0) as number).toString(16)}}`)
}

/** What Sandman says itself, on one line. It names its options as no language writes them: here they are as they are typed. */
export function sentence(text: string): string {
  return harmless(text).replace(/"if (\w+): (\w+)"/g, '--if-$1 $2')
}

/** The same for text of several lines that are ours. */
export function sentences(text: string): string {
  return text.split('\n').map(sentence).join('\n')
}
