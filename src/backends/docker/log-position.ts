import { BackendError } from '../backend.ts'
import type { LogLine } from './log-lines.ts'

/**
 * A place in the log of a container.
 *
 * The engine gives what it has logged from a moment on, in the order of its log, which is not quite that of the moments: the two
 * outputs of an agent are read by two hands, and all parts of a long line have the moment of its first. Whatever that order is, it
 * stays: so from one moment on, a place is a number of bytes. So that those are not counted from the beginning for ever, the
 * moment moves on, at a distance behind which nothing is logged late any more.
 */
export type LogPosition = { container: string; sinceNs: bigint; bytes: number }

const CURSOR = /^(?<container>[0-9a-f]{12})\.(?<since>\d{1,20})\.(?<bytes>\d{1,15})$/

const SECOND_NS = 1_000_000_000n
/** Nothing is logged so long after its moment, but for the rest of a long line. */
const LATE_NS_MAX = 60n * SECOND_NS

export function positionOf(container: string, cursor: string | undefined): LogPosition {
  if (cursor === undefined) return { container, sinceNs: 0n, bytes: 0 }
  const { container: of, since = '', bytes } = CURSOR.exec(cursor)?.groups ?? {}
  if (of === container) return { container, sinceNs: BigInt(since), bytes: Number(bytes) }
  throw new BackendError('spec_invalid', `No output of ${container} was ever read up to ${JSON.stringify(cursor)}`)
}

/** Follows what is read of a log, and knows where that has come to. */
export class LogReader {
  readonly #container: string
  #since: bigint
  #bytes = 0
  /** So many bytes have been read before, by whoever has had the cursor. */
  #known: number
  /** The moment that is counted from next, and what has been read from there on. */
  #next: { since: bigint; bytes: number } | undefined
  #latest = 0n

  constructor({ container, sinceNs, bytes }: LogPosition) {
    this.#container = container
    this.#since = sinceNs
    this.#known = bytes
  }

  get cursor(): string {
    return `${this.#container}.${this.#since}.${this.#bytes}`
  }

  /** The moment from which the log is to be given, when it is read anew from there; as the engine wants to be told. */
  rewind(): string {
    this.#known = Math.max(this.#known, this.#bytes)
    this.#bytes = 0
    this.#next = undefined
    return `${this.#since / SECOND_NS}.${String(this.#since % SECOND_NS).padStart(9, '0')}`
  }

  /** Whether all was seen again that is said to have been read before. */
  get hasCaughtUp(): boolean {
    return this.#bytes >= this.#known
  }

  /** What of a line is new. */
  read({ atNs, bytes, isOpen }: LogLine): Buffer {
    const fresh = bytes.subarray(Math.max(0, this.#known - this.#bytes))
    this.#bytes += bytes.length
    if (this.#next && atNs >= this.#next.since) this.#next.bytes += bytes.length
    if (atNs > this.#latest) this.#latest = atNs
    // Not within a long line, whose rest is still to come, with the moment of its beginning.
    if (!isOpen && this.hasCaughtUp) this.#moveOn()
    return fresh
  }

  #moveOn(): void {
    if (this.#next && this.#latest - this.#next.since > LATE_NS_MAX) {
      this.#since = this.#next.since
      this.#bytes = this.#known = this.#next.bytes
      this.#next = undefined
    }
    this.#next ??= { since: this.#latest + 1n, bytes: 0 }
  }
}
