/** Chance that can be had again: the same seed brings the same numbers, on every machine. */
export class Random {
  readonly #seed: string
  #state: number

  constructor(seed: string) {
    this.#seed = seed
    this.#state = hashOf(seed)
  }

  /** Another source of chance, which does not depend on how often this one was asked. */
  fork(name: string): Random {
    return new Random(`${this.#seed}/${name}`)
  }

  /** From 0 up to, and without, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  /** Both ends included. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  pick<T>(some: readonly T[]): T {
    if (some.length === 0) throw new Error('there is nothing to pick from')
    return some[this.below(some.length)] as T
  }

  /** One of the names, each as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries(weights) as [Name, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    return (entries.at(-1) as [Name, number])[0]
  }

  shuffled<T>(all: readonly T[]): T[] {
    const left = [...all]
    return all.map(() => left.splice(this.below(left.length), 1)[0] as T)
  }

  /** As many letters and digits as are asked for. */
  letters(count: number): string {
    return Array.from({ length: count }, () => this.pick([...'0123456789abcdef'])).join('')
  }
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash
}
