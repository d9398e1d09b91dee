import type { OutputPiece } from '../../fleet/output.ts'
import { unfinishedBytes } from '../utf8.ts'

export type TextPiece = { from: number; to: number; text: string }

/**
 * The same output as text. A program may be cut anywhere, also in the middle of a character: its first bytes are held back until the
 * others are there, so that whoever goes on behind a piece never begins with half of one. What is no UTF-8 is shown as �.
 */
export async function* textPieces(pieces: AsyncIterable<OutputPiece>): AsyncGenerator<TextPiece, void> {
  let held: OutputPiece | undefined
  for await (const piece of pieces) {
    // What was pruned leaves a gap, and what stands before it is never made whole.
    if (held && held.to !== piece.from) {
      yield decode(held)
      held = undefined
    }
    const bytes = held ? Buffer.concat([held.bytes, piece.bytes]) : Buffer.from(piece.bytes)
    const from = held?.from ?? piece.from
    const whole = bytes.length - unfinishedBytes(bytes)
    held = whole < bytes.length ? { from: from + whole, to: piece.to, bytes: bytes.subarray(whole) } : undefined
    if (whole > 0) yield decode({ from, to: from + whole, bytes: bytes.subarray(0, whole) })
  }
  if (held) yield decode(held)
}

function decode({ from, to, bytes }: OutputPiece): TextPiece {
  return { from, to, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) }
}
