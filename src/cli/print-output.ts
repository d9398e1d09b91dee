import type { OutputPiece } from '../fleet/output.ts'
import type { Out } from './io.ts'
import { SafeOutput } from './safe-output.ts'

/** Byte for byte, but for what could harm a terminal. Without `to`, until there is no more. */
export async function printOutput(
  pieces: AsyncIterable<OutputPiece>,
  out: Out,
  to = Number.POSITIVE_INFINITY,
): Promise<void> {
  if (to <= 0) return
  const safe = out.isTerminal ? new SafeOutput() : undefined
  try {
    for await (const piece of pieces) {
      const bytes = piece.bytes.subarray(0, Math.max(0, to - piece.from))
      await out.write(safe ? safe.pass(bytes) : bytes)
      if (piece.to >= to) return
    }
  } finally {
    if (safe) await out.write(safe.end())
  }
}
