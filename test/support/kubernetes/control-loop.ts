type Key = { namespace: string; name: string }

const RETRY_MS = 100

/** What a controller is: whatever has changed is looked at once more, one after the other for the same object. */
export class ControlLoop {
  readonly #reconcile: (namespace: string, name: string) => Promise<{ againAfterMs?: number } | undefined>
  readonly #wanted = new Map<string, Key>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #isPaused = false
  #isStopped = false

  constructor(reconcile: (namespace: string, name: string) => Promise<{ againAfterMs?: number } | undefined>) {
    this.#reconcile = reconcile
  }

  enqueue(namespace: string | undefined, name: string): void {
    const key = `${namespace}/${name}`
    this.#wanted.set(key, { namespace: namespace ?? '', name })
    if (!this.#isPaused) this.#run(key)
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    for (const key of [...this.#wanted.keys()]) this.#run(key)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
    await Promise.allSettled(this.#running.values())
  }

  #run(key: string): void {
    if (this.#running.has(key) || this.#isStopped) return
    const running = this.#settle(key).finally(() => {
      this.#running.delete(key)
      if (this.#wanted.has(key) && !this.#isPaused) this.#run(key)
    })
    this.#running.set(key, running)
  }

  async #settle(key: string): Promise<void> {
    await new Promise(setImmediate)
    const wanted = this.#wanted.get(key)
    if (!wanted || this.#isStopped || this.#isPaused) return
    this.#wanted.delete(key)
    clearTimeout(this.#timers.get(key))
    const again = await this.#reconcile(wanted.namespace, wanted.name).catch(() => ({ againAfterMs: RETRY_MS }))
    if (again?.againAfterMs === undefined || this.#isStopped) return
    const timer = setTimeout(() => this.enqueue(wanted.namespace, wanted.name), again.againAfterMs)
    this.#timers.set(key, timer.unref())
  }
}
