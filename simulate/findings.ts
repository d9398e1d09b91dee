import type { Engine } from './engine.ts'

/** Something that must not be. */
export type Finding = {
  rule: string
  /** What it is about: a sandbox, if that is known. */
  about: string
  says: string
  atMs: number
}

/** What was found to be wrong in a run, each once. */
export class Findings {
  readonly #engine: Engine
  readonly #found = new Map<string, Finding>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  add(rule: string, about: string, says: string): void {
    const key = `${rule} ${about}`
    if (!this.#found.has(key)) this.#found.set(key, { rule, about, says, atMs: this.#engine.elapsedMs })
  }

  get all(): Finding[] {
    return [...this.#found.values()]
  }

  get isEmpty(): boolean {
    return this.#found.size === 0
  }
}
