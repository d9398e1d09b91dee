import type { Random } from '../../proof/random.ts'
import type { Engine } from '../engine.ts'

/** How an agent ended, and because of what: the truth, whatever anybody was told. */
type AgentEnd = {
  atMs: number
  exitCode: number | null
  signal: string | null
  oomKilled: boolean
  by: 'itself' | 'stop' | 'mishap' | 'sandbox'
}

type Plan = {
  pieces: { afterMs: number; bytes: Buffer }[]
  lastMs: number
  end: 'exit' | 'oom' | 'signal' | 'never'
  exitCode: number
}

/** One that is orderly ends by itself, with 0. */
type Start = { key: string; incarnation: number; isOrderly?: boolean }

/** Most write a few lines; some write more than fits into one statement. */
const BIG = { share: 0.03, bytes: 150_000 }

/** An agent in an instance: writes what its plan says, and ends as that says, unless somebody ends it before. */
export class SimulatedAgent {
  readonly key: string
  /** Of its instance, when it was started. */
  readonly incarnation: number
  readonly startedAtMs: number
  readonly #engine: Engine
  readonly #plan: Plan
  #written: Buffer[] = []
  #bytes = Buffer.alloc(0)
  #at = 0
  #isAsleep = false
  #turn = 0
  readonly #watchers = new Set<() => void>()
  end: AgentEnd | undefined
  /** For so long after its end its status says that it runs. */
  readonly lagMs: number
  readonly stopMs: number

  constructor(engine: Engine, random: Random, { key, incarnation, isOrderly = false }: Start) {
    this.key = key
    this.incarnation = incarnation
    this.startedAtMs = engine.nowMs
    this.#engine = engine
    const plan = drawPlan(random, key)
    this.#plan = isOrderly ? { ...plan, end: 'exit', exitCode: 0 } : plan
    this.lagMs = random.chance(0.3) ? random.between(0, 4_000) : 0
    this.stopMs = random.chance(0.1) ? random.between(5_000, 25_000) : random.between(5, 2_000)
    this.#goOn()
  }

  /** All that it has written. */
  get bytes(): Buffer {
    if (this.#written.length > 0) {
      this.#bytes = Buffer.concat([this.#bytes, ...this.#written])
      this.#written = []
    }
    return this.#bytes
  }

  #goOn(): void {
    const turn = ++this.#turn
    const piece = this.#plan.pieces[this.#at]
    const ms = piece?.afterMs ?? this.#plan.lastMs
    if (!piece && this.#plan.end === 'never') return
    this.#engine.after(ms, `agent ${this.key || 'of its own'} ${piece ? 'writes' : 'ends'}`, () => {
      if (turn !== this.#turn || this.#isAsleep || this.end) return
      if (!piece) return this.#endAsPlanned()
      this.#at++
      this.#written.push(piece.bytes)
      this.stir()
      this.#goOn()
    })
  }

  #endAsPlanned(): void {
    const { end, exitCode } = this.#plan
    if (end === 'oom') this.endBy('itself', { exitCode: 137, oomKilled: true })
    else if (end === 'signal') this.endBy('itself', { signal: 'SIGSEGV' })
    else this.endBy('itself', { exitCode })
  }

  endBy(by: AgentEnd['by'], how: Partial<Pick<AgentEnd, 'exitCode' | 'signal' | 'oomKilled'>> = {}): void {
    if (this.end) return
    this.end = { atMs: this.#engine.nowMs, exitCode: null, signal: null, oomKilled: false, ...how, by }
    this.stir()
  }

  sleep(): void {
    this.#isAsleep = true
    this.stir()
  }

  wake(): void {
    if (!this.#isAsleep) return
    this.#isAsleep = false
    this.#goOn()
  }

  /** Calls `watcher` once, when something about it has changed. */
  watch(watcher: () => void): void {
    this.#watchers.add(watcher)
  }

  /** Whoever reads its output looks again whether there is anything to read. */
  stir(): void {
    const watchers = [...this.#watchers]
    this.#watchers.clear()
    for (const watcher of watchers) watcher()
  }
}

function drawPlan(random: Random, key: string): Plan {
  const count = random.pick([0, 1, 2, 3, 5, 8, 12])
  const pace = random.pick([200, 1_000, 4_000])
  const pieces = Array.from({ length: count }, (_, nth) => {
    const line = `${key} says ${nth}: ${random.letters(random.integer(0, 60))}\n`
    const times = random.chance(BIG.share) ? Math.ceil(BIG.bytes / line.length) : 1
    return { afterMs: random.between(10, pace), bytes: Buffer.from(line.repeat(times)) }
  })
  const end = random.weighted({ exit: 75, oom: 8, signal: 6, never: 11 })
  return { pieces, lastMs: random.between(10, pace), end, exitCode: random.chance(0.75) ? 0 : random.integer(1, 120) }
}
