import type { Measured } from './order.ts'
import { stopwatch } from './serve.ts'

/** Counts the jobs of a queue that was filled beforehand, from the beginning of the first to the end of the last. */
export class Drain {
  #left = 0
  #count = 0
  #read: ReturnType<typeof stopwatch> | undefined
  #over: { resolve(measured: Measured): void; reject(error: unknown): void } | undefined

  expect(count: number): Promise<Measured> {
    this.#count = count
    this.#left = count
    this.#read = undefined
    return new Promise((resolve, reject) => {
      this.#over = { resolve, reject }
    })
  }

  began(): void {
    if (this.#left > 0) this.#read ??= stopwatch()
  }

  ended(): void {
    if (--this.#left === 0 && this.#read) this.#over?.resolve(this.#read(this.#count))
  }

  failed(error: unknown): void {
    this.#over?.reject(error)
  }
}
