import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * A process, from its start to its end: a worker, or the web process of somebody who asks. Everything that it does, it does in
 * its own asynchronous context; so a timer, a statement or a call to a provider is known to be its own.
 */
export class Life {
  readonly name: string
  isDead = false
  /** Stopped, as by SIGSTOP, until then: whatever reaches it meanwhile waits. */
  frozenUntilMs = 0
  /** What it leaves behind when it dies. */
  readonly #atDeath: (() => void)[] = []

  constructor(name: string) {
    this.name = name
  }

  atDeath(work: () => void): void {
    this.#atDeath.push(work)
  }

  die(): void {
    if (this.isDead) return
    this.isDead = true
    for (const work of this.#atDeath) work()
  }

  /** Begins something in this process. What it awaits, and what comes back to it, belongs to it as well. */
  do<T>(work: () => T): T {
    return lives.run(this, work)
  }
}

const lives = new AsyncLocalStorage<Life>()

/** Whose code is running; undefined when it is the simulation's own. */
export function currentLife(): Life | undefined {
  return lives.getStore()
}

/** For what only a simulated process may do. */
export function requireLife(): Life {
  const life = lives.getStore()
  if (!life) throw new Error('this was to be done by a simulated process, and was done by the simulation')
  return life
}
