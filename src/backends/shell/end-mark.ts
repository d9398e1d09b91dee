import { randomUUID } from 'node:crypto'

/**
 * Runs a script, `$1`, and says at its end that this was all: a connection that is cut in the middle ends like one that has come
 * to its end, and who knows how a script ended does not know who has heard it.
 */
export const WITH_END_MARK = `sh -c "$1" 2>&1 </dev/null; printf '%s%s\\n' "$2" $?`

const SAID_CHARS = 400

/** Begins with a byte that no text has, so that of what is said nothing has to be held back. */
function newMark(): string {
  return `\x01${randomUUID()} `
}

/** Reads the output of a script up to its mark. */
export class EndMark {
  /** What the script is to be told: the second argument. */
  readonly word: string
  readonly #mark: Buffer
  #held: Buffer = Buffer.alloc(0)
  #said = ''

  constructor(word = newMark()) {
    this.word = word
    this.#mark = Buffer.from(word)
  }

  /** The last that was heard. */
  get said(): string {
    return this.#said.trim()
  }

  /** What may be shown of what has come; and with the end of it, how the script ended. */
  read(bytes: Buffer): { shown: Buffer; exitCode: number | undefined } {
    const { shown, rest } = this.#split(this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]))
    this.#held = rest
    this.#said = (this.#said + shown.toString('utf8', Math.max(0, shown.length - SAID_CHARS))).slice(-SAID_CHARS)
    const end = rest.indexOf('\n')
    const isOver = end !== -1 && rest.indexOf(this.#mark) === 0
    return { shown, exitCode: isOver ? Number(rest.toString('utf8', this.#mark.length, end)) : undefined }
  }

  /** What may be shown, and what may be the beginning of the mark, or is the mark and what is behind it. */
  #split(bytes: Buffer): { shown: Buffer; rest: Buffer } {
    const mark = this.#mark
    let at = bytes.indexOf(mark)
    // It ends behind the last byte at the latest, because an empty rest may begin any mark.
    for (let from = Math.max(0, bytes.length - mark.length + 1); at === -1; from++)
      if (mark.subarray(0, bytes.length - from).equals(bytes.subarray(from))) at = from
    return { shown: bytes.subarray(0, at), rest: bytes.subarray(at) }
  }
}

/** All that a script says, as one text. */
export async function readAll(reading: AsyncGenerator<Uint8Array, { exitCode: number }>) {
  const pieces: Uint8Array[] = []
  for (;;) {
    const next = await reading.next()
    if (next.done) return { ...next.value, output: Buffer.concat(pieces).toString() }
    pieces.push(next.value)
  }
}
