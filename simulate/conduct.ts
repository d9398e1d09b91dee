import type { Random } from '../proof/random.ts'
import { FAULTS, type FaultName, type Faults } from './faults.ts'

/** How often something of a kind goes wrong in this run: nothing at all, or some of it, or much. */
type Rates = Record<FaultName, number>

/**
 * How everything behaves that is not Sandman's own code. Each seed has other faults, and each of them more or less often: a fault that
 * always comes with all the others is seen in one light only.
 */
export class Conduct {
  readonly #random: Random
  readonly rates: Rates
  readonly faults: Faults
  /** Until then everything may go wrong; afterwards nothing does. */
  isWell = false

  constructor(random: Random, faults: Faults) {
    this.#random = random
    this.faults = faults
    this.rates = drawRates(random.fork('rates'))
  }

  /** Whether it happens now. What happens is counted. */
  happens(fault: FaultName): boolean {
    if (this.isWell || !this.#random.chance(this.rates[fault])) return false
    this.faults.count(fault)
    return true
  }

  /** One way of a statement, or of a command to the queue. */
  statementMs(): number {
    if (this.happens('database_slow')) return this.#random.between(100, 20_000)
    return this.#random.between(0.1, this.#random.chance(0.05) ? 60 : 4)
  }

  databaseMishap(): 'lost' | 'unheard' | undefined {
    if (this.happens('database_lost')) return 'lost'
    return this.happens('database_unheard') ? 'unheard' : undefined
  }

  queueMs(): number {
    if (this.happens('queue_slow')) return this.#random.between(100, 5_000)
    return this.#random.between(0.1, 3)
  }

  callMs(): number {
    if (this.happens('call_slow')) return this.#random.between(1_000, 90_000)
    return this.#random.between(1, this.#random.chance(0.1) ? 1_500 : 80)
  }
}

function drawRates(random: Random): Rates {
  const overall = random.pick([0.3, 1, 1, 2])
  const draw = (most: number) => (random.chance(0.35) ? 0 : random.next() * most * overall)
  return Object.fromEntries(Object.entries(FAULTS).map(([name, { most }]) => [name, draw(most)])) as Rates
}
