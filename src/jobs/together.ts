import type { Clock } from '../clock.ts'
import type { Db } from '../db/pool.ts'
import { type Attempted, type Settled, type Stale, settle, settleFree } from '../db/settle.ts'
import { type NotTaken, type Taken, type Taking, take, takeFree } from '../db/take.ts'

/** What one statement does for at most. More would keep the first of them waiting for the last. */
const TOGETHER_MAX = 32

type Way<Asked, Answer> = {
  idOf(asked: Asked): string
  /** By one statement that waits for nobody. Whoever has no answer then was in nobody's way, and asks alone. */
  together(several: Asked[]): Promise<Map<string, Answer>>
  alone(asked: Asked): Promise<Answer>
}

type Waiting<Asked, Answer> = {
  asked: Asked
  resolve(answer: Answer | Promise<Answer>): void
  reject(error: unknown): void
}

/**
 * One statement for many jobs: the first is answered at once, and those that ask while that is under way together, by the next one.
 * Where there is much to do, that is a statement for a dozen of them; where there is little, nobody waits for anybody.
 */
export class Together<Asked, Answer> {
  readonly #way: Way<Asked, Answer>
  #waiting: Waiting<Asked, Answer>[] = []
  #isUnderWay = false

  constructor(way: Way<Asked, Answer>) {
    this.#way = way
  }

  ask(asked: Asked): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ asked, resolve, reject })
      if (!this.#isUnderWay) void this.#answerAll()
    })
  }

  async #answerAll(): Promise<void> {
    this.#isUnderWay = true
    while (this.#waiting.length > 0) await this.#answer(this.#next())
    this.#isUnderWay = false
  }

  /** One that was delivered twice is answered twice, one after the other. */
  #next(): Map<string, Waiting<Asked, Answer>> {
    const next = new Map<string, Waiting<Asked, Answer>>()
    this.#waiting = this.#waiting.filter((each) => {
      const id = this.#way.idOf(each.asked)
      if (next.size === TOGETHER_MAX || next.has(id)) return true
      next.set(id, each)
      return false
    })
    return next
  }

  async #answer(several: Map<string, Waiting<Asked, Answer>>): Promise<void> {
    const { together, alone } = this.#way
    try {
      const answers = await together([...several.values()].map(({ asked }) => asked))
      for (const [id, { asked, resolve }] of several) {
        const answer = answers.get(id)
        // Not waited for: one whose sandbox is locked must not hold up the others.
        resolve(answer ?? alone(asked))
      }
    } catch (error) {
      for (const { reject } of several.values()) reject(error)
    }
  }
}

export type Taker = Together<string, Taken | NotTaken>

/** Takes operations for all jobs of a queue. One that was delivered twice is taken from the first by the second. */
export function openTaker(db: Db, taking: Taking): Taker {
  return new Together<string, Taken | NotTaken>({
    idOf: (operationId) => operationId,
    together: (operationIds) => takeFree(db, taking, operationIds),
    alone: (operationId) => take(db, { ...taking, operationId }),
  })
}

export type Settler = Together<Attempted, Settled | Stale>

/** Settles operations for all jobs of a worker. */
export function openSettler(db: Db, clock: Clock): Settler {
  return new Together<Attempted, Settled | Stale>({
    idOf: ({ attempt }) => attempt.operationId,
    together: (several) => settleFree(db, several, clock),
    alone: (attempted) => settle(db, { ...attempted, clock }),
  })
}
