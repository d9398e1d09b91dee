/** Bytes that come as lines of base64, each of which can be read by itself. The stream may be cut anywhere. */
export class Letters {
  #unfinished = ''

  /** What is whole by now. */
  read(letters: Uint8Array): Uint8Array {
    const lines = (this.#unfinished + Buffer.from(letters).toString('latin1')).split('\n')
    this.#unfinished = lines.pop() as string
    return Buffer.concat(lines.map((line) => Buffer.from(line, 'base64')))
  }
}
