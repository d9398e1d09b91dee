export type LogStream = 'stdout' | 'stderr'

/** A line of a log file as a container runtime writes it. */
export type LogEntry = {
  atNs: bigint
  stream: LogStream
  /** Without the newline that ended it. */
  bytes: Buffer
  /** It was not ended by a newline: the next one of the same stream goes on with the line, if there is one. */
  isPartial: boolean
}

/** What a kubelet keeps: five files of 10 MiB, of which the oldest goes when there would be a sixth. */
const LOG_BYTES_MAX = 50 << 20
const FILES = 5
/** Time, stream and tag stand before each line in the file. */
const PREFIX_BYTES = 40

/**
 * What one container has written, in the order in which it was heard. Entries are counted from the container's first one on, and
 * keep their numbers when those before them are gone.
 */
export class ContainerLog {
  #kept: LogEntry[] = []
  #keptBytes = 0
  #firstIndex = 0
  #isClosed = false
  #changing: PromiseWithResolvers<void> | undefined

  /** Of the oldest that is still there. */
  get firstIndex(): number {
    return this.#firstIndex
  }

  /** Of the next one that will be written. */
  get nextIndex(): number {
    return this.#firstIndex + this.#kept.length
  }

  /** Nothing more comes from the container. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  append(entry: LogEntry): void {
    this.#kept.push(entry)
    this.#keptBytes += sizeOf(entry)
    if (this.#keptBytes > LOG_BYTES_MAX) this.#dropOldestFile()
    this.#change()
  }

  snapshot(): LogEntry[] {
    return [...this.#kept]
  }

  /** As by a rotation. Whoever follows and has not read them goes on behind them. */
  drop(count: number): void {
    const dropped = this.#kept.splice(0, count)
    this.#firstIndex += dropped.length
    for (const entry of dropped) this.#keptBytes -= sizeOf(entry)
  }

  /**
   * All from this number on, or from the oldest that is still there, and then what comes, until the container has ended. Who leaves
   * is let go at once, also while it waits: by `return`, or by the signal.
   */
  entries(fromIndex = 0, { signal }: { signal?: AbortSignal } = {}): AsyncIterableIterator<LogEntry> {
    const leaving = Promise.withResolvers<void>()
    let at = fromIndex
    let hasLeft = false
    const leave = () => {
      hasLeft = true
      leaving.resolve()
      signal?.removeEventListener('abort', leave)
      return { done: true, value: undefined } as const
    }
    if (signal?.aborted) leave()
    else signal?.addEventListener('abort', leave)
    return {
      next: async () => {
        for (;;) {
          if (hasLeft) return { done: true, value: undefined }
          at = Math.max(at, this.#firstIndex)
          const value = this.#kept[at - this.#firstIndex]
          if (value) {
            at++
            return { done: false, value }
          }
          if (this.#isClosed) return leave()
          await Promise.race([this.#changed(), leaving.promise])
        }
      },
      return: async () => leave(),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  close(): void {
    this.#isClosed = true
    this.#change()
  }

  #changed(): Promise<void> {
    this.#changing ??= Promise.withResolvers()
    return this.#changing.promise
  }

  #change(): void {
    this.#changing?.resolve()
    this.#changing = undefined
  }

  #dropOldestFile(): void {
    let bytes = 0
    let count = 0
    for (const entry of this.#kept) {
      if (bytes >= LOG_BYTES_MAX / FILES) break
      bytes += sizeOf(entry)
      count++
    }
    this.drop(count)
  }
}

function sizeOf({ bytes }: LogEntry): number {
  return PREFIX_BYTES + bytes.length
}
