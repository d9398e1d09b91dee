import type { Random } from '../proof/random.ts'
import { Heap } from './heap.ts'
import type { Life } from './life.ts'
import type { Trace } from './trace.ts'

/** Something that is going to happen. */
export type Happening = {
  readonly atMs: number
  /** Among those of the same moment, by chance. */
  readonly order: number
  readonly what: string
  /** Whom it happens to; undefined for what happens in the world: in the database, in a queue, at a provider. */
  readonly life: Life | undefined
  readonly work: () => void | Promise<void>
  isCancelled: boolean
}

/** Wherever the simulated world begins: far from today, so that whoever asks the real clock is found out. */
const BEGINNING_MS = Date.UTC(2031, 0, 1)

/** Many times more than any run needs. */
const STEPS_MAX = 3_000_000

const { setImmediate: afterAll } = globalThis

/** Asked before something reaches a process: whether it gets there. */
type Fate = (happening: Happening, life: Life) => 'lives' | 'dies'

/**
 * Time, and what happens in it: one thing after the other, and the next one only when everything that follows from the last has
 * come to rest. Nothing takes any time but what is told to; when nothing else is left to do, time jumps.
 */
export class Engine {
  readonly random: Random
  readonly trace: Trace
  readonly #coming = new Heap<Happening>((a, b) => a.atMs - b.atMs || a.order - b.order)
  #nowMs = BEGINNING_MS
  steps = 0
  fate: Fate = () => 'lives'

  constructor(random: Random, trace: Trace) {
    this.random = random
    this.trace = trace
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** Since the beginning. */
  get elapsedMs(): number {
    return this.#nowMs - BEGINNING_MS
  }

  /** In the world, which never dies and never stops. */
  after(ms: number, what: string, work: () => void | Promise<void>): Happening {
    return this.#add(ms, what, undefined, work)
  }

  /** In a process: not if that has died by then, and later if it is frozen. */
  reach(life: Life, ms: number, what: string, work: () => void): Happening {
    return this.#add(ms, what, life, work)
  }

  #add(ms: number, what: string, life: Life | undefined, work: Happening['work']): Happening {
    const atMs = this.#nowMs + Math.max(0, ms)
    const happening = { atMs, order: this.random.next(), what, life, work, isCancelled: false }
    this.#coming.push(happening)
    return happening
  }

  /** Goes on until then, or until it is over. */
  async runUntil(atMs: number, isOver: () => boolean = () => false): Promise<void> {
    await rest()
    while (!isOver()) {
      const next = this.#coming.peek()
      if (!next || next.atMs > atMs) break
      this.#coming.pop()
      await this.#happen(next)
    }
    this.#nowMs = Math.max(this.#nowMs, atMs)
  }

  async #happen(happening: Happening): Promise<void> {
    const { life, what, work } = happening
    if (happening.isCancelled || life?.isDead) return
    this.#nowMs = Math.max(this.#nowMs, happening.atMs)
    if (life && life.frozenUntilMs > this.#nowMs) {
      this.#coming.push({ ...happening, atMs: life.frozenUntilMs })
      return
    }
    if (++this.steps > STEPS_MAX) throw new Error(`it does not come to an end: ${STEPS_MAX} steps, and it is ${what}`)
    if (life && this.fate(happening, life) === 'dies') {
      this.trace.tell(this.elapsedMs, life.name, `dies before: ${what}`)
      life.die()
      return
    }
    this.trace.tell(this.elapsedMs, life?.name ?? 'world', what)
    await work()
    await rest()
  }
}

/** When this comes, no promise that could go on by itself is left. */
function rest(): Promise<void> {
  return new Promise((resolve) => {
    afterAll(resolve)
  })
}
