import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { type Append, appendOutput } from '../db/streams.ts'

/** How long the first piece waits for others, so that many small ones share a statement. Nobody sees the difference. */
const GATHER_MS = 20
const PIECES_MAX = 500
const BYTES_MAX = 1 << 20
/** Statements under way at the same time. */
const AT_ONCE = 2

type Entry = { piece: Append; resolve(isKept: boolean): void; reject(error: unknown): void }

/**
 * Writes down the output of all executions that a worker follows, many pieces in one statement: a thousand agents that print a
 * line each cost one round trip. Each has at most one piece here, and reads no further until that is kept: what a slow database
 * cannot take stays with the provider.
 */
export class Scribe {
  readonly #deps: { db: Db; clock: Clock }
  #pending: Entry[] = []
  #timer: NodeJS.Timeout | undefined
  #writing = 0

  constructor(deps: { db: Db; clock: Clock }) {
    this.#deps = deps
  }

  /** False when it was not this piece's turn, or not its writer's: somebody else follows the execution, or it has ended. */
  append(piece: Append): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ piece, resolve, reject })
      this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS)
    })
  }

  #flush(): void {
    this.#timer = undefined
    while (this.#pending.length > 0 && this.#writing < AT_ONCE) void this.#write(this.#takeBatch())
  }

  #takeBatch(): Entry[] {
    let count = 0
    for (let bytes = 0; count < Math.min(PIECES_MAX, this.#pending.length) && bytes < BYTES_MAX; count++) {
      bytes += this.#pending[count]?.piece.bytes.length ?? 0
    }
    return this.#pending.splice(0, count)
  }

  async #write(batch: Entry[]): Promise<void> {
    this.#writing++
    try {
      const kept = await appendOutput(
        this.#deps.db,
        batch.map(({ piece }) => piece),
        this.#deps.clock,
      )
      for (const { piece, resolve } of batch) resolve(kept.has(piece.id))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    } finally {
      this.#writing--
      if (this.#timer === undefined) this.#flush()
    }
  }
}
