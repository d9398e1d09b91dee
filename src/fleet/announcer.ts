import { announce, IDS_PER_NOTICE } from '../db/announce.ts'
import type { Db } from '../db/pool.ts'
import type { Events } from '../events.ts'

/**
 * Tells those who wait that their operations have settled, many in one notice: what settles while one is under way goes with
 * the next. A notice that fails is not sent again, because whoever waits also looks by itself.
 */
export class Announcer {
  readonly #deps: { db: Db; fleet: string; events: Events }
  #pending: string[] = []
  #sending: Promise<void> | undefined

  constructor(deps: { db: Db; fleet: string; events: Events }) {
    this.#deps = deps
  }

  announce(operationIds: string[]): void {
    this.#pending.push(...operationIds)
    this.#sending ??= this.#send()
  }

  async #send(): Promise<void> {
    const { db, fleet, events } = this.#deps
    while (this.#pending.length > 0) {
      const operationIds = this.#pending.splice(0, IDS_PER_NOTICE)
      await announce(db, { fleet, operationIds }).catch((error: unknown) =>
        events.emit('operation.unannounced', { operationIds, error }),
      )
    }
    // In the same breath as the last look at what is pending: a moment later, what came in between would wait for the next.
    this.#sending = undefined
  }

  /** Resolves when all that was to be told has been. */
  async close(): Promise<void> {
    await this.#sending
  }
}
