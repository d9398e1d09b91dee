import { AsyncLocalStorage } from 'node:async_hooks'
import type { Engine, Happening } from './engine.ts'
import { requireLife } from './life.ts'

/** Nobody's timer is exact, and now and then one is late, because its process was busy. */
const LATE_MS = 1
const VERY_LATE = { share: 0.01, ms: 400 }

/** What `setTimeout` gives to a simulated process. It ends with that process. */
export class VirtualTimer {
  readonly #engine: Engine
  readonly #work: () => void
  readonly #ms: number
  readonly #isRepeated: boolean
  readonly #life = requireLife()
  /** Also what else the process had put into its context, such as the fields of its log. */
  readonly #inContext = AsyncLocalStorage.snapshot()
  #next: Happening

  constructor(engine: Engine, work: () => void, ms: number, isRepeated: boolean) {
    this.#engine = engine
    this.#work = work
    this.#ms = Number.isFinite(ms) ? Math.max(0, ms) : 0
    this.#isRepeated = isRepeated
    this.#next = this.#start()
  }

  #start(): Happening {
    const { random } = this.#engine
    const lateMs = random.chance(VERY_LATE.share) ? random.between(0, VERY_LATE.ms) : random.between(0, LATE_MS)
    return this.#engine.reach(this.#life, this.#ms + lateMs, `timer of ${Math.round(this.#ms)} ms`, () => {
      if (this.#isRepeated) this.#next = this.#start()
      this.#inContext(this.#work)
    })
  }

  stop(): void {
    this.#next.isCancelled = true
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }
}
