import { moment } from '../moment.ts'
import type { Measured, Progress } from './order.ts'
import { stopwatch } from './serve.ts'

/** Counts the jobs of a queue that was filled beforehand, from the beginning of the first to the end of the last. */
export class Drain {
  #wanted = Number.POSITIVE_INFINITY
  #read: ReturnType<typeof stopwatch> | undefined
  #over: { resolve(measured: Measured): void; reject(error: unknown): void } | undefined
  #progress: Progress = { count: 0, beganAt: undefined, endedAt: undefined }

  /** When this process alone works on them. */
  expect(count: number): Promise<Measured> {
    this.begin()
    this.#wanted = count
    return new Promise((resolve, reject) => {
      this.#over = { resolve, reject }
    })
  }

  /** When others do, too: whoever asks all of them knows when it is over. */
  begin(): void {
    this.#wanted = Number.POSITIVE_INFINITY
    this.#read = undefined
    this.#over = undefined
    this.#progress = { count: 0, beganAt: undefined, endedAt: undefined }
  }

  get progress(): Progress {
    return this.#progress
  }

  began(): void {
    this.#read ??= stopwatch()
    this.#progress.beganAt ??= moment()
  }

  ended(): void {
    this.#progress.endedAt = moment()
    if (++this.#progress.count === this.#wanted) this.#over?.resolve(this.#read?.(this.#wanted) as Measured)
  }

  failed(error: unknown): void {
    this.#over?.reject(error)
  }
}
