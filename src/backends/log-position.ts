import { BackendError } from './backend.ts'

/** A line of a log, or a part of a long one. */
export type LogLine = {
  atNs: bigint
  bytes: Buffer
  /** A long line, of this output or the other, has not come to its end. */
  isOpen: boolean
}

/**
 * A place in the log of a container.
 *
 * Asked for its log from a moment on, a container runtime gives lines in an order that always is the same, but not quite that of
 * their moments: the two outputs of an agent are read apart from each other, and all parts of a long line have the moment of the
 * first. So a place is a moment, and how many bytes have been read from there on. In order not to count from the beginning for
 * ever, the moment moves on, so far behind what was read that nothing older is logged any more.
 */
type LogPosition = {
  container: string
  sinceNs: bigint
  bytes: number
  /** The moment of the first line that was counted. When it is another one, the log has forgotten its beginning. */
  firstNs?: bigint | undefined
  /** The latest moment of all that was read. When the place is lost, only what is later than this is new for sure. */
  latestNs?: bigint | undefined
}

const CURSOR =
  /^(?<container>[0-9a-f-]{12,40})\.(?<since>\d{1,20})\.(?<bytes>\d{1,15})(?:~(?<first>\d{1,20})(?:~(?<latest>\d{1,20}))?)?$/

const SECOND_NS = 1_000_000_000n
/** Nothing is logged so long after its moment, but for the rest of a long line. */
const LATE_NS_MAX = 60n * SECOND_NS

export function positionOf(container: string, cursor: string | undefined): LogPosition {
  if (cursor === undefined) return { container, sinceNs: 0n, bytes: 0 }
  const { container: of, since = '', bytes, first, latest } = CURSOR.exec(cursor)?.groups ?? {}
  if (of === container)
    return {
      container,
      sinceNs: BigInt(since),
      bytes: Number(bytes),
      firstNs: first ? BigInt(first) : undefined,
      latestNs: latest ? BigInt(latest) : undefined,
    }
  throw new BackendError('spec_invalid', `No output of ${container} was ever read up to ${JSON.stringify(cursor)}`)
}

const NOTHING = Buffer.alloc(0)
const MOMENT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/

/** A moment as container runtimes write it; undefined of what is none. */
export function nanosecondsOf(moment: string): bigint | undefined {
  const [, seconds, fraction = '', zone] = MOMENT.exec(moment) ?? []
  return seconds === undefined
    ? undefined
    : BigInt(Date.parse(`${seconds}${zone}`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

type Mark = { since: bigint; bytes: number; first: bigint | undefined }

/** Follows what is read of a log, and knows where that has come to. */
export class LogReader {
  readonly #container: string
  #since: bigint
  #bytes = 0
  /** How many bytes have been read before, as the cursor says. */
  #known: number
  /** The first line that was counted, and the one that should be the first now. */
  #first: bigint | undefined
  #firstKnown: bigint | undefined
  /** Where counting will begin next, with what has been read from there on; and where after that. */
  #next: Mark | undefined
  #later: Mark | undefined
  #latest = 0n
  /** Of all that was read, also before. */
  #latestKnown: bigint
  /** The same, as it was before the first line. */
  #latestBefore = 0n
  /** Set when the place was lost: what is no later than this has been read, or cannot be told from what has. */
  #readUpTo: bigint | undefined

  constructor({ container, sinceNs, bytes, firstNs, latestNs = 0n }: LogPosition) {
    this.#container = container
    this.#since = sinceNs
    this.#known = bytes
    this.#firstKnown = firstNs
    this.#latestKnown = latestNs
  }

  get cursor(): string {
    const first = this.#first ?? this.#firstKnown
    const known = first === undefined ? '' : `~${first}~${this.#latestKnown}`
    return `${this.#container}.${this.#since}.${this.#bytes}${known}`
  }

  /** Where the log is to be read from. */
  get sinceNs(): bigint {
    return this.#since
  }

  /** The moment from which the log is to be given, when it is read anew from there; as the engine wants to be told. */
  rewind(): string {
    this.#known = Math.max(this.#known, this.#bytes)
    this.#bytes = 0
    this.#firstKnown = this.#first ?? this.#firstKnown
    this.#first = undefined
    this.#next = this.#later = undefined
    this.#readUpTo = undefined
    return `${this.#since / SECOND_NS}.${String(this.#since % SECOND_NS).padStart(9, '0')}`
  }

  /** Whether all was seen again that is said to have been read before. */
  get hasCaughtUp(): boolean {
    return this.#bytes >= this.#known
  }

  /**
   * Whether what was counted is not what the log begins with any more: then nobody can say which of its bytes have been read. Known
   * from the first line on.
   */
  get hasLostItsPlace(): boolean {
    return (
      this.#known > 0 && this.#firstKnown !== undefined && this.#first !== undefined && this.#first !== this.#firstKnown
    )
  }

  /**
   * Counts anew from this line, which is now the first: what the log had before it is gone, some of it perhaps unread. Returns what is
   * new of the line; of those behind it, only what is later than all that was read is new.
   */
  beginAnew({ atNs, bytes }: LogLine): Buffer {
    this.#known = this.#bytes
    this.#firstKnown = this.#first
    this.#readUpTo = this.#latestBefore
    return atNs > this.#readUpTo ? bytes : NOTHING
  }

  /** What of a line is new. */
  read({ atNs, bytes, isOpen }: LogLine): Buffer {
    if (atNs < this.#since && !this.hasCaughtUp) return NOTHING // asked for in whole seconds, it begins too early
    if (this.#first === undefined) this.#latestBefore = this.#latestKnown
    this.#first ??= atNs
    if (atNs > this.#latestKnown) this.#latestKnown = atNs
    const isRead = this.#readUpTo !== undefined && atNs <= this.#readUpTo
    const fresh = isRead ? NOTHING : bytes.subarray(Math.max(0, this.#known - this.#bytes))
    this.#bytes += bytes.length
    for (const mark of [this.#next, this.#later])
      if (mark && atNs >= mark.since) {
        mark.bytes += bytes.length
        mark.first ??= atNs
      }
    if (atNs > this.#latest) this.#latest = atNs
    // Not within a long line, whose rest is still to come, with the moment of its beginning.
    if (!isOpen) this.#moveOn()
    return fresh
  }

  /**
   * Marks are also set in what is only read again: otherwise a reader that is cut off again and again would never get beyond its
   * first moment.
   */
  #moveOn(): void {
    if (this.#later && this.#latest - this.#later.since > LATE_NS_MAX) {
      this.#next = this.#later
      this.#later = undefined
    }
    if (this.#next && this.hasCaughtUp) {
      this.#since = this.#next.since
      this.#bytes = this.#known = this.#next.bytes
      this.#first = this.#firstKnown = this.#next.first
      this.#next = undefined
    }
    this.#later ??= { since: this.#latest + 1n, bytes: 0, first: undefined }
  }
}
