/** What happens, in order, for somebody who asks for one after the other, before it happens or after. */
export class Line<T> {
  readonly #there: T[] = []
  readonly #asking: ((item: T) => void)[] = []

  add(item: T): void {
    const ask = this.#asking.shift()
    if (ask) ask(item)
    else this.#there.push(item)
  }

  async next(): Promise<T> {
    if (this.#there.length > 0) return this.#there.shift() as T
    return new Promise((resolve) => this.#asking.push(resolve))
  }
}
