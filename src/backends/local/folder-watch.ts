import { type FSWatcher, watch } from 'node:fs'
import type { Call } from '../backend.ts'

/** `content`: of a file that was there. `anything`: also that one has come or gone. */
export type Change = 'content' | 'anything'

/** Where the system has no watch left to give. */
const POLL_MS = 250

/**
 * Tells when something may have changed in a folder: at once where the system tells us, and after a while in any case. It waits
 * for one who asks, and remembers what has changed before that. It costs nothing until it is asked for the first time.
 */
export class FolderWatch {
  readonly #folder: string
  readonly #lookAfterMs: number
  #watcher: FSWatcher | 'none' | undefined
  #changed: Change | undefined
  #wake: (() => void) | undefined

  constructor(folder: string, { lookAfterMs }: { lookAfterMs: number }) {
    this.#folder = folder
    this.#lookAfterMs = lookAfterMs
  }

  /** The first time it returns at once: what has changed before it watched, nobody has told it. */
  async next({ signal }: Call): Promise<Change> {
    if (!this.#watcher) {
      this.#watcher = this.#watch()
      return 'anything'
    }
    if (!this.#changed) await this.#sleep(signal)
    signal.throwIfAborted()
    const changed = this.#changed ?? 'content'
    this.#changed = undefined
    return changed
  }

  close(): void {
    if (this.#watcher && this.#watcher !== 'none') this.#watcher.close()
    this.#watcher = 'none'
  }

  #watch(): FSWatcher | 'none' {
    try {
      return watch(this.#folder, (event) => this.#tell(event === 'change' ? 'content' : 'anything')).once(
        'error',
        () => {
          this.close()
          this.#tell('anything')
        },
      )
    } catch {
      return 'none' // there is none left, or the folder is gone: whoever looks next finds out
    }
  }

  #tell(change: Change): void {
    if (this.#changed !== 'anything') this.#changed = change
    this.#wake?.()
  }

  async #sleep(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, this.#watcher === 'none' ? POLL_MS : this.#lookAfterMs)
    this.#wake = resolve
    signal.addEventListener('abort', this.#wake)
    if (signal.aborted) resolve()
    await promise
    signal.removeEventListener('abort', this.#wake)
    this.#wake = undefined
    clearTimeout(timer)
  }
}
