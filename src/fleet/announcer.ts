import { setTimeout as sleep } from 'node:timers/promises'
import { announce, IDS_PER_NOTICE } from '../db/announce.ts'
import type { Db } from '../db/pool.ts'
import type { Events } from '../events.ts'

/** Between two notices: as long as nobody notices, and long enough that a busy worker tells of many operations at once. */
const BETWEEN_MS = 10

/**
 * Tells those who wait that there is news: operations that have settled, executions with more output or an end. Many in one
 * notice: the first goes at once, and what happens in the moment after it goes with the next. A notice that fails is not sent
 * again, because whoever waits also looks by itself.
 */
export class Announcer {
  readonly #deps: { db: Db; fleet: string; events: Events }
  readonly #pending = new Set<string>()
  #sending: Promise<void> | undefined

  constructor(deps: { db: Db; fleet: string; events: Events }) {
    this.#deps = deps
  }

  announce(ids: string[]): void {
    for (const id of ids) this.#pending.add(id)
    this.#sending ??= this.#send()
  }

  async #send(): Promise<void> {
    const { db, fleet, events } = this.#deps
    while (this.#pending.size > 0) {
      const ids = [...this.#pending].slice(0, IDS_PER_NOTICE)
      for (const id of ids) this.#pending.delete(id)
      await announce(db, { fleet, ids }).catch((error: unknown) => events.emit('notice.failed', { ids, error }))
      await sleep(BETWEEN_MS)
    }
    // Without an `await` since the last look at what is pending: what came in between would not be sent before the next
    // announcement.
    this.#sending = undefined
  }

  /** Resolves when all that was to be told has been. */
  async close(): Promise<void> {
    await this.#sending
  }
}
