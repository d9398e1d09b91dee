import type { ServerResponse } from 'node:http'
import type { StreamFault } from './faults.ts'

/** What was sent has to arrive: a break comes behind it, and not instead of it. */
const ARRIVAL_MS = 5

/** What something prints, kept from its first byte on: whoever comes is given all of it, and then what is still printed. */
export class OutputStream {
  readonly #pieces: Buffer[] = []
  readonly #readers = new Set<Reader>()
  #isOver = false

  push(bytes: Buffer): void {
    this.#pieces.push(bytes)
    for (const reader of this.#readers) reader.give(bytes)
  }

  end(): void {
    this.#isOver = true
    this.letGo()
  }

  /** All who listen have heard what there is: the machine that prints has been put away. */
  letGo(): void {
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
  }

  follow(response: ServerResponse, goesOn: boolean, fault: StreamFault | undefined): void {
    response.writeHead(200, { 'content-type': 'application/octet-stream' })
    response.flushHeaders()
    const reader = new Reader(response, fault)
    for (const piece of this.#pieces) reader.give(piece)
    if (this.#isOver || !goesOn) reader.end()
    else this.#readers.add(reader)
    response.on('close', () => this.#readers.delete(reader))
  }
}

class Reader {
  readonly #response: ServerResponse
  readonly #fault: StreamFault | undefined
  #sentBytes = 0
  #isBroken = false

  constructor(response: ServerResponse, fault: StreamFault | undefined) {
    this.#response = response
    this.#fault = fault
    this.#breakIfDue()
  }

  give(bytes: Buffer): void {
    if (this.#isBroken) return
    const piece = bytes.subarray(0, (this.#fault?.afterBytes ?? Number.POSITIVE_INFINITY) - this.#sentBytes)
    this.#sentBytes += piece.length
    this.#response.write(piece)
    this.#breakIfDue()
  }

  end(): void {
    if (!this.#isBroken) this.#response.end()
  }

  #breakIfDue(): void {
    if (!this.#fault || this.#sentBytes < this.#fault.afterBytes) return
    if (this.#fault.how === 'end') this.end()
    this.#isBroken = true
    const { socket } = this.#response
    if (this.#fault.how === 'reset') setTimeout(() => socket?.resetAndDestroy(), ARRIVAL_MS)
  }
}
