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
  leave(): void
}

/**
 * Asks once a second, for all executions that a worker follows at once, whether they are still its own and what is wished of
 * them. That also tells the bell that they are followed.
 */
export class RollCall {
  readonly #deps: Deps
  readonly #followed = new Set<Followed>()
  #timer: NodeJS.Timeout | undefined

  constructor(deps: Deps) {
    this.#deps = deps
  }

  enter(id: string, fence: number, heard: (answer: RollCallAnswer) => void): Membership {
    const followed = { id, fence, heard }
    this.#followed.add(followed)
    this.#timer ??= setTimeout(() => void this.#callAll(), EVERY_MS)
    return {
      look: async () => {
        const [answer] = await this.#call([followed])
        return answer ?? { id, isMine: false, wish: null, overdue: false, moving: false } // it was pruned
      },
      leave: () => {
        this.#followed.delete(followed)
        if (this.#followed.size > 0) return
        clearTimeout(this.#timer)
        this.#timer = undefined
      },
    }
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
    this.#timer = this.#followed.size === 0 ? undefined : setTimeout(() => void this.#callAll(), EVERY_MS)
  }

  #call(followed: readonly Followed[]): Promise<RollCallAnswer[]> {
    const { db, clock, overdueMs } = this.#deps
    return callRoll(db, followed, { overdueMs, clock })
  }
}
