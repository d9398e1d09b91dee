import { BackendError } from '../backend.ts'
import { type LogLine, nanosecondsOf } from '../log-position.ts'

/** A moment and a space: `2006-01-02T15:04:05.000000000+07:00 ` is the longest. */
const PREFIX_BYTES_MAX = 36
const NEWLINE = 0x0a
const SPACE = 0x20
const NOTHING: Buffer = Buffer.alloc(0)

/**
 * The lines of a log that is asked for with the moment of each, cut anywhere. Of a long line only the beginning has one, and what
 * comes later of it belongs to that.
 */
export class LogLines {
  /** Of a line that is being read; undefined between two. */
  #atNs: bigint | undefined
  /** Of a moment that is being read. */
  #prefix: Buffer = NOTHING
  #mayBeginWithin: boolean
  #isSkipping = false

  /** What is asked for from a moment on may begin in the middle of a line that has begun before that. */
  constructor({ mayBeginWithin }: { mayBeginWithin: boolean }) {
    this.#mayBeginWithin = mayBeginWithin
  }

  *read(piece: Buffer): Generator<LogLine> {
    let rest = piece
    while (rest.length > 0) {
      if (this.#atNs === undefined && !this.#isSkipping) {
        rest = this.#begin(rest)
        continue
      }
      const end = rest.indexOf(NEWLINE)
      const bytes = end === -1 ? rest : rest.subarray(0, end + 1)
      rest = rest.subarray(bytes.length)
      if (this.#atNs !== undefined) yield { atNs: this.#atNs, bytes, isOpen: end === -1 }
      if (end === -1) continue
      this.#atNs = undefined
      this.#isSkipping = false
    }
  }

  /** Reads the moment of a line, and returns what is behind it. */
  #begin(piece: Buffer): Buffer {
    const text = this.#prefix.length === 0 ? piece : Buffer.concat([this.#prefix, piece])
    this.#prefix = NOTHING
    const space = text.subarray(0, PREFIX_BYTES_MAX).indexOf(SPACE)
    const isWhole = space !== -1 || text.length >= PREFIX_BYTES_MAX || text.includes(NEWLINE)
    if (!isWhole) {
      this.#prefix = text
      return NOTHING
    }
    this.#atNs = space === -1 ? undefined : nanosecondsOf(text.toString('latin1', 0, space))
    if (this.#atNs === undefined && !this.#mayBeginWithin)
      throw new BackendError('sandbox_unreachable', 'Kubernetes has sent a line of a log without its moment')
    this.#isSkipping = this.#atNs === undefined
    this.#mayBeginWithin = false
    return this.#isSkipping ? text : text.subarray(space + 1)
  }
}
