import type { Piece } from './backend.ts'
import type { LogReader } from './log-position.ts'

/** About as many bytes of an output are one piece at most. */
export const PIECE_BYTES_MAX = 64 * 1024

/** What has come at once of a log, and is new, as one piece; or as several, of which each is passed on while the next is read. */
export function* inPieces(fresh: Iterable<Buffer>, reader: LogReader): Generator<Piece> {
  let held: Buffer[] = []
  let length = 0
  for (const bytes of fresh) {
    if (bytes.length === 0) continue
    held.push(bytes)
    length += bytes.length
    if (length < PIECE_BYTES_MAX / 2) continue
    yield { bytes: Buffer.concat(held), cursor: reader.cursor }
    held = []
    length = 0
  }
  if (length > 0) yield { bytes: Buffer.concat(held), cursor: reader.cursor }
}
