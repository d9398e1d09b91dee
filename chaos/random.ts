/** Chance that a seed decides, so that the same seed does the same again. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Another one that does not depend on how often this one was asked. */
  static of(seed: number, ...which: (string | number)[]): Random {
    let mixed = seed >>> 0
    for (const letter of which.join(' ')) mixed = Math.imul(mixed ^ letter.charCodeAt(0), 0x9e3779b1) >>> 0
    return new Random(mixed)
  }

  /** From 0 up to 1, as `Math.random`. (Mulberry32, by Tommy Ettinger, public domain.) */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  happens(share: number): boolean {
    return this.next() < share
  }

  oneOf<const All extends readonly unknown[]>(all: All): All[number] {
    return all[this.below(all.length)]
  }

  /** By weights, which need not add up to anything. */
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
    for (let at = left.length - 1; at > 0; at--) {
      const other = this.below(at + 1)
      ;[left[at], left[other]] = [left[other] as T, left[at] as T]
    }
    return left
  }
}
