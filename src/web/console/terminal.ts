import { unfinishedBytes } from '../utf8.ts'
import { shown } from './shown.ts'

/**
 * Output is bytes from a stranger, cut wherever a buffer was full. This takes as much from the front as can be read by itself: up to
 * the last whole character, and not into an escape sequence. So a text never depends on what came before it, and reading may
 * begin at every place where one ended.
 */
export function readable(bytes: Uint8Array): { text: string; length: number } {
  const whole = bytes.length - unfinishedBytes(bytes)
  const text = new TextDecoder().decode(bytes.subarray(0, whole))
  const cut = openEscape(text)
  if (cut === undefined) return { text: plain(text), length: whole }
  const kept = text.slice(0, cut)
  return { text: plain(kept), length: whole - Buffer.byteLength(text.slice(cut)) }
}

/** All that there is, with what is not whole shown as it is. */
export function allReadable(bytes: Uint8Array): string {
  return plain(new TextDecoder().decode(bytes))
}

const ESC = '\u001b'
/** Colours and cursors (CSI), titles and links (OSC, DCS and their like, until their end), and what else an escape may begin. */
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]|\u009b[0-?]*[ -/]*[@-~]/g
/** One that is longer is no escape sequence, but somebody's joke. */
const ESCAPE_MAX = 1_024

/** Where an escape sequence begins that is not over yet. */
function openEscape(text: string): number | undefined {
  const at = text.lastIndexOf(ESC)
  if (at === -1 || text.length - at > ESCAPE_MAX) return text.endsWith('\r') ? text.length - 1 : undefined
  const rest = text.slice(at)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  if (/^\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001b]*|[ -/]*)?$/.test(rest)) return at
  return text.endsWith('\r') ? text.length - 1 : undefined
}

/** Without what would move a cursor or colour something, and with line ends of one kind. What is left and not seen is written out. */
function plain(text: string): string {
  return shown(text.replaceAll(ESCAPES, '').replaceAll(/\r\n?/g, '\n'), Number.POSITIVE_INFINITY)
}
