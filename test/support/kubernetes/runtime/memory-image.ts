import type { Body } from './body.ts'

/**
 * The processes of some containers, standing still. Here they are the processes themselves and no copy of them, so that they can go
 * on once.
 */
export class MemoryImage {
  #bodies: ReadonlyMap<string, Body> | undefined

  /** By the ids of the containers that they were in. */
  constructor(bodies: ReadonlyMap<string, Body>) {
    this.#bodies = bodies
  }

  /** The containers that it was made of; none when it was used up. */
  get containerIds(): string[] {
    return [...(this.#bodies?.keys() ?? [])]
  }

  /** Whoever takes them has them alone. */
  take(): ReadonlyMap<string, Body> | undefined {
    const bodies = this.#bodies
    this.#bodies = undefined
    return bodies
  }
}
