import type { OutputPiece } from '../../fleet/output.ts'

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
    const whole = bytes.length - unfinished(bytes)
    held = whole < bytes.length ? { from: from + whole, to: piece.to, bytes: bytes.subarray(whole) } : undefined
    if (whole > 0) yield decode({ from, to: from + whole, bytes: bytes.subarray(0, whole) })
  }
  if (held) yield decode(held)
}

/** How many bytes at the end begin a character that has more of them. */
function unfinished(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number
    if ((byte & 0b1100_0000) === 0b1000_0000) continue // it goes on with one that began before
    const length = byte >= 0b1111_0000 ? 4 : byte >= 0b1110_0000 ? 3 : byte >= 0b1100_0000 ? 2 : 1
    return length > back ? back : 0
  }
  return 0
}

function decode({ from, to, bytes }: OutputPiece): TextPiece {
  return { from, to, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) }
}
