import type { Out } from './io.ts'

const HIDE_CURSOR = '\x1b[?25l'
const SHOW_CURSOR = '\x1b[?25h'
const NO_WRAP = '\x1b[?7l'
const WRAP = '\x1b[?7h'
const CLEAR_BELOW = '\x1b[0J'

/** Lines at the end of a terminal that are drawn anew in their place. */
export class Frame {
  readonly #out: Out
  /** However the process ends, the terminal is left as it was. */
  readonly #restore = () => void this.#out.write(WRAP + SHOW_CURSOR)
  #height = 0
  #isOpen = false

  constructor(out: Out) {
    this.#out = out
  }

  /** Lines have to fit the width. Those that do not fit the height are not shown, and that is said. */
  async draw(lines: readonly string[]): Promise<void> {
    const room = Math.max(1, this.#out.rows() - 1)
    const hidden = lines.length - room
    const shown = hidden > 0 ? [...lines.slice(0, room - 1), `… and ${hidden + 1} more lines`] : lines
    const begin = this.#isOpen ? '' : HIDE_CURSOR + NO_WRAP
    const text = `${begin}${this.#back()}${shown.map((line) => `${line}\n`).join('')}`
    if (!this.#isOpen) process.once('exit', this.#restore)
    this.#isOpen = true
    this.#height = shown.length
    await this.#out.write(text)
  }

  /** Takes it away, so that something can be printed there. */
  async clear(): Promise<void> {
    const back = this.#back()
    this.#height = 0
    if (back !== '') await this.#out.write(back)
  }

  /** Leaves it as it is, and the terminal as it was. */
  async end(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#height = 0
    process.off('exit', this.#restore)
    await this.#out.write(WRAP + SHOW_CURSOR)
  }

  #back(): string {
    return this.#height > 0 ? `\x1b[${this.#height}A\r${CLEAR_BELOW}` : ''
  }
}
