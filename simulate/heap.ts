/** What comes next, of many that come and go. */
export class Heap<T> {
  readonly #items: T[] = []
  readonly #compare: (a: T, b: T) => number

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  peek(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.push(item) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (this.#compare(items[parent] as T, item) <= 0) break
      items[at] = items[parent] as T
      at = parent
    }
    items[at] = item
  }

  pop(): T | undefined {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (items.length === 0 || last === undefined) return first
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      if (left >= items.length) break
      const right = left + 1
      const isRightFirst = right < items.length && this.#compare(items[right] as T, items[left] as T) < 0
      const child = isRightFirst ? right : left
      if (this.#compare(last, items[child] as T) <= 0) break
      items[at] = items[child] as T
      at = child
    }
    items[at] = last
    return first
  }
}
