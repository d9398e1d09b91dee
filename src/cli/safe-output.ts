/** Sequences longer than this are none. */
const SEQUENCE_MAX = 64
const ESC = '\x1b'

type Where = 'text' | 'escape' | 'control' | 'string' | 'string escape' | 'charset'

/**
 * What an agent prints can move the cursor, retitle a window, write to the clipboard, or make a terminal type an answer. Of all
 * escape sequences only colours and the erasing of a line pass, and of all controls those that progress bars are made of.
 */
export class SafeOutput {
  readonly #decoder = new TextDecoder()
  #where: Where = 'text'
  #sequence = ''
  #isColoured = false

  /** The part of it that can do no harm. A sequence may come in several pieces. */
  pass(bytes: Uint8Array): string {
    return this.#filter(this.#decoder.decode(bytes, { stream: true }))
  }

  /** What is left, in the terminal's own colours. */
  end(): string {
    return this.#filter(this.#decoder.decode()) + (this.#isColoured ? `${ESC}[0m` : '')
  }

  #filter(text: string): string {
    let safe = ''
    for (const letter of text) safe += this.#read(letter)
    return safe
  }

  #read(letter: string): string {
    switch (this.#where) {
      case 'text':
        if (letter === ESC) this.#go('escape')
        // Eight-bit controls: the same as ESC and a letter, on terminals that know them.
        else if (letter === '\x9b') this.#go('control')
        else if (/[\x90\x98\x9d-\x9f]/.test(letter)) this.#go('string')
        else if (letter >= ' ' ? !/[\x7f-\x9f]/.test(letter) : '\n\r\t\b'.includes(letter)) return letter
        return ''
      case 'escape':
        this.#go(
          letter === '[' ? 'control' : ']PX^_'.includes(letter) ? 'string' : /[ -/]/.test(letter) ? 'charset' : 'text',
        )
        return ''
      case 'charset':
        if (!/[ -/]/.test(letter)) this.#go('text')
        return ''
      case 'string':
        // One that is never closed must not swallow all that comes after it.
        if (letter === '\x07' || letter === '\x9c' || letter === '\n') this.#go('text')
        else if (letter === ESC) this.#go('string escape')
        return letter === '\n' ? letter : ''
      case 'string escape':
        this.#go(letter === '\\' ? 'text' : letter === ESC ? 'string escape' : 'string')
        return ''
      case 'control':
        return this.#control(letter)
    }
  }

  #control(letter: string): string {
    if (/[0-9;:]/.test(letter) && this.#sequence.length < SEQUENCE_MAX) {
      this.#sequence += letter
      return ''
    }
    const sequence = this.#sequence
    if (/[ -?]/.test(letter)) {
      this.#sequence = '?'.repeat(SEQUENCE_MAX) // private or too long: none that passes
      return ''
    }
    this.#go(letter === ESC ? 'escape' : 'text')
    const isColour = letter === 'm'
    if (sequence.startsWith('?') || !(isColour || letter === 'K')) return ''
    this.#isColoured ||= isColour
    return `${ESC}[${sequence}${letter}`
  }

  #go(where: Where): void {
    this.#where = where
    this.#sequence = ''
  }
}
