import { Readable } from 'node:stream'

/** For how long, in sum, an output is waited for that others hold open when its process has ended; and how much they may say. */
const LAST_WORDS_MS = 50
const LAST_WORDS_BYTES_MAX = 1 << 20

const AHEAD_BYTES = 16 * 1024

/**
 * One output of a process, as it is read: nothing is taken from the pipe, beyond a few buffers, before somebody wants it. It ends with
 * the pipe; or, when its process has ended and only what that has left in the background still holds it, a moment later.
 */
export class Outlet extends Readable {
  readonly #pipe: Readable
  #isWanted = false
  #isOver = false
  #hasEnded = false
  #leftMs = LAST_WORDS_MS
  #leftBytes = LAST_WORDS_BYTES_MAX
  #waiting: { since: number; timer: NodeJS.Timeout } | undefined

  constructor(pipe: Readable) {
    super({ highWaterMark: AHEAD_BYTES })
    this.#pipe = pipe
    pipe.on('data', (bytes: Buffer) => this.#take(bytes)).pause()
    pipe.on('error', () => this.finish())
    pipe.on('close', () => this.finish())
  }

  override _read(): void {
    this.#isWanted = true
    this.#pipe.resume()
    this.#wait()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#stopWaiting()
    this.#pipe.destroy()
    done(error)
  }

  /** Its process has ended. What that has written is in the pipe, and whoever reads it slowly loses nothing of it. */
  expectEnd(): void {
    this.#isOver = true
    this.#wait()
  }

  /** At once. */
  finish(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#stopWaiting()
    this.#pipe.destroy()
    this.push(null)
  }

  #take(bytes: Buffer): void {
    if (this.#hasEnded) return
    this.#isWanted = false
    this.#stopWaiting()
    if (this.#isOver) this.#leftBytes -= bytes.length
    if (!this.push(bytes)) this.#pipe.pause()
    else this.#isWanted = true
    if (this.#leftBytes < 0) this.finish()
    else this.#wait()
  }

  #wait(): void {
    if (!this.#isOver || !this.#isWanted || this.#waiting || this.#hasEnded) return
    // A turn later, so that what has come in a turn that took long is read before.
    const timer = setTimeout(() => setImmediate(() => this.#isStillWaiting(timer) && this.finish()), this.#leftMs)
    this.#waiting = { since: performance.now(), timer }
  }

  #isStillWaiting(timer: NodeJS.Timeout): boolean {
    return this.#waiting?.timer === timer
  }

  #stopWaiting(): void {
    if (!this.#waiting) return
    clearTimeout(this.#waiting.timer)
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#waiting.since))
    this.#waiting = undefined
  }
}
