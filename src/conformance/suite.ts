import { type Awake, Bench, IDLING } from './bench.ts'
import type { Case, Subject } from './subject.ts'

type Try = (bench: Bench) => Promise<void>
type SharedTry = (bench: Bench, target: Awake) => Promise<void>

/** The cases of one subject, and the sandbox that many of them share: to make one costs more than most of what is tried in it. */
export class Suite {
  readonly subject: Subject
  #common: Promise<{ bench: Bench; target: Awake }> | undefined

  constructor(subject: Subject) {
    this.subject = subject
  }

  /** Cases with a fleet of their own each. */
  own(about: string, tries: Record<string, Try>): Case[] {
    return casesOf(about, tries, async (attempt) => {
      const bench = await Bench.open(this.subject)
      try {
        await attempt(bench)
      } finally {
        await bench.close()
      }
    })
  }

  /** Cases that leave the sandbox as it was, but for files of their own. Its agent idles. */
  shared(about: string, tries: Record<string, SharedTry>): Case[] {
    return casesOf(about, tries, async (attempt) => {
      const { bench, target } = await this.common()
      await attempt(bench, target)
    })
  }

  common(): Promise<{ bench: Bench; target: Awake }> {
    this.#common ??= this.#makeCommon()
    return this.#common
  }

  async #makeCommon(): Promise<{ bench: Bench; target: Awake }> {
    const bench = await Bench.open(this.subject)
    return { bench, target: await bench.create({ agent: { command: IDLING } }) }
  }

  async close(): Promise<void> {
    const { bench } = (await this.#common?.catch(() => undefined)) ?? {}
    await bench?.close()
  }
}

function casesOf<T>(about: string, tries: Record<string, T>, run: (attempt: T) => Promise<void>): Case[] {
  return Object.entries(tries).map(([name, attempt]) => ({ about, name, run: () => run(attempt) }))
}
