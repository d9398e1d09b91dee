/** Rung whenever something has changed that somebody may be waiting for. */
export class Bell {
  #waiters = new Set<() => void>()

  ring(): void {
    const waiters = this.#waiters
    this.#waiters = new Set()
    for (const wake of waiters) wake()
  }

  /** Rejects when the signal is aborted. */
  rung(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const wake = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiters.delete(wake)
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.add(wake)
    })
  }
}
