import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { callRoll, type RollCallAnswer } from '../db/streams.ts'
import type { Events } from '../events.ts'

/** How long a cancellation takes to be heard of, at most. */
const EVERY_MS = 1_000
const BATCH_MAX = 1_000

type Deps = { db: Db; clock: Clock; events: Events; overdueMs: number }
type Followed = { id: string; fence: number; heard(answer: RollCallAnswer): void }

export type Membership = {
  /** What is true at this moment. */
  look(): Promise<RollCallAnswer>
  leave(): unknown
}

/**
 * Asks once a second, for all executions that a worker follows at once, whether they are still its own and what is wished of
 * them. That also tells the bell that they are followed.
 */
export class RollCall {
  readonly #deps: Deps
  readonly #followed = new Set<Followed>()
  /** As long as there is anybody to call. */
  #isCalling = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  enter(id: string, fence: number, heard: (answer: RollCallAnswer) => void): Membership {
    const followed = { id, fence, heard }
    this.#followed.add(followed)
    this.#isCalling ||= this.#callOnAndOn()
    return {
      look: async () => {
        const [answer] = await this.#call([followed])
        return answer ?? { id, isMine: false, wish: null, overdue: false, moving: false } // it was pruned
      },
      leave: () => this.#followed.delete(followed),
    }
  }

  #callOnAndOn(): true {
    setTimeout(async () => {
      await this.#callAll()
      this.#isCalling = this.#followed.size > 0 && this.#callOnAndOn()
    }, EVERY_MS).unref()
    return true
  }

  async #callAll(): Promise<void> {
    const all = [...this.#followed]
    try {
      for (let at = 0; at < all.length; at += BATCH_MAX) {
        const batch = all.slice(at, at + BATCH_MAX)
        const answers = new Map((await this.#call(batch)).map((answer) => [answer.id, answer]))
        for (const followed of batch) {
          const answer = answers.get(followed.id)
          if (answer && this.#followed.has(followed)) followed.heard(answer)
        }
      }
    } catch (error) {
      this.#deps.events.emit('execution.roll_call_failed', { error })
    }
  }

  #call(followed: readonly Followed[]): Promise<RollCallAnswer[]> {
    const { db, clock, overdueMs } = this.#deps
    return callRoll(db, followed, { overdueMs, clock })
  }
}
