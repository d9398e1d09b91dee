/** The longest line that a runtime writes as one. */
const LINE_BYTES_MAX = 16 * 1024

const NEWLINE = 10

/** Makes lines out of what one stream brings. A line that is not finished is held back until it is, or is too long, or nothing more comes. */
export class LineCutter {
  readonly #emit: (bytes: Buffer, isPartial: boolean) => void
  #held: Buffer[] = []
  #heldBytes = 0

  constructor(emit: (bytes: Buffer, isPartial: boolean) => void) {
    this.#emit = emit
  }

  take(bytes: Buffer): void {
    for (let from = 0; from < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, from)
      const to = newline === -1 ? bytes.length : newline
      let rest = bytes.subarray(from, to)
      const isTooLong = () => this.#heldBytes + rest.length >= LINE_BYTES_MAX + (newline === -1 ? 0 : 1)
      while (isTooLong()) {
        const room = LINE_BYTES_MAX - this.#heldBytes
        this.#release(rest.subarray(0, room), true)
        rest = rest.subarray(room)
      }
      if (newline !== -1) this.#release(rest, false)
      else if (rest.length > 0) this.#hold(rest)
      from = to + 1
    }
  }

  /** Nothing more comes. */
  flush(): void {
    if (this.#heldBytes > 0) this.#release(Buffer.alloc(0), true)
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes)
    this.#heldBytes += bytes.length
  }

  #release(last: Buffer, isPartial: boolean): void {
    const bytes = this.#heldBytes === 0 ? last : Buffer.concat([...this.#held, last])
    this.#held = []
    this.#heldBytes = 0
    this.#emit(bytes, isPartial)
  }
}
