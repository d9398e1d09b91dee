import type { Db } from '../db/pool.ts'
import { type NotTaken, type Taken, type Taking, take, takeFree } from '../db/take.ts'

/** Operations that one statement takes. More would keep the first of them waiting for the last. */
const TOGETHER_MAX = 32

type Asked = {
  operationId: string
  resolve(taken: Taken | NotTaken | Promise<Taken | NotTaken>): void
  reject(error: unknown): void
}

/**
 * Takes operations for all jobs of a queue: the first at once, and those that come while it is under way together, by one statement.
 * Where there is much to do, that is a statement for a dozen of them; where there is little, nobody waits for anybody.
 */
export class Taker {
  readonly #db: Db
  readonly #taking: Taking
  #asked: Asked[] = []
  #isTaking = false

  constructor(db: Db, taking: Taking) {
    this.#db = db
    this.#taking = taking
  }

  take(operationId: string): Promise<Taken | NotTaken> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ operationId, resolve, reject })
      if (!this.#isTaking) void this.#takeAll()
    })
  }

  async #takeAll(): Promise<void> {
    this.#isTaking = true
    while (this.#asked.length > 0) await this.#takeSome(this.#next())
    this.#isTaking = false
  }

  /** One that was delivered twice is taken twice, one after the other: the second takes it from the first. */
  #next(): Map<string, Asked> {
    const next = new Map<string, Asked>()
    this.#asked = this.#asked.filter((asked) => {
      if (next.size === TOGETHER_MAX || next.has(asked.operationId)) return true
      next.set(asked.operationId, asked)
      return false
    })
    return next
  }

  async #takeSome(some: Map<string, Asked>): Promise<void> {
    try {
      for (const taken of await takeFree(this.#db, this.#taking, [...some.keys()])) {
        const { id } = taken.operation
        some.get(id)?.resolve(taken)
        some.delete(id)
      }
      // Not waited for: one whose sandbox is locked must not hold up the others.
      for (const { operationId, resolve } of some.values()) resolve(take(this.#db, { ...this.#taking, operationId }))
    } catch (error) {
      for (const { reject } of some.values()) reject(error)
    }
  }
}
