import { BackendError } from '../backend.ts'
import { type LogLine, nanosecondsOf } from '../log-position.ts'

/** The engine splits what it logs at so many bytes without the end of a line. */
const PART_BYTES = 16 * 1024
const HEADER_BYTES = 8
/** Of a part, with the moment before it. What claims to be longer is not a log. */
const FRAME_BYTES_MAX = 1024 * 1024

/** What containers print, as it comes from the engine: in frames, each from one of two outputs, cut anywhere. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0)

  /** Whether what has come so far ends within a frame. */
  get isCut(): boolean {
    return this.#rest.length > 0
  }

  *read(piece: Buffer): Generator<{ output: number; bytes: Buffer }> {
    this.#rest = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    while (this.#rest.length >= HEADER_BYTES) {
      const output = this.#rest.readUInt8(0)
      const length = this.#rest.readUInt32BE(4)
      if (output > 2 || length > FRAME_BYTES_MAX)
        throw new BackendError(
          'sandbox_unreachable',
          'What the Docker engine has sent is not the output of a container',
        )
      if (this.#rest.length < HEADER_BYTES + length) return
      yield { output, bytes: this.#rest.subarray(HEADER_BYTES, HEADER_BYTES + length) }
      this.#rest = this.#rest.subarray(HEADER_BYTES + length)
    }
  }
}

/** The lines of a log that is asked for with the moment of each. */
export class LineReader {
  readonly #frames = new FrameReader()
  readonly #losesLineEnds: boolean
  /** Which of the outputs is within a long line. */
  readonly #open = new Set<number>()

  get isCut(): boolean {
    return this.#frames.isCut
  }

  /** Some engines forget the end of a long line, where they keep a log in their own format. */
  constructor({ driver }: { driver: string | undefined }) {
    this.#losesLineEnds = driver === 'local'
  }

  *read(piece: Buffer): Generator<LogLine> {
    for (const { output, bytes } of this.#frames.read(piece)) {
      const at = bytes.indexOf(' ')
      const text = bytes.subarray(at + 1)
      const line = this.#mend(output, text)
      const atNs = nanosecondsOf(bytes.toString('latin1', 0, Math.max(at, 0)))
      if (atNs === undefined)
        throw new BackendError('sandbox_unreachable', 'The Docker engine has sent a line without its moment')
      yield { atNs, bytes: line, isOpen: this.#open.size > 0 }
    }
  }

  /** After parts that are full and have no end, a part that is not full is the last one, and its line had an end. */
  #mend(output: number, text: Buffer): Buffer {
    const hasEnd = text.at(-1) === 0x0a
    const wasOpen = this.#open.delete(output)
    if (!hasEnd && text.length >= PART_BYTES) this.#open.add(output)
    else if (wasOpen && !hasEnd && this.#losesLineEnds) return Buffer.concat([text, Buffer.from('\n')])
    return text
  }
}
