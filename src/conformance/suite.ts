import { type Awake, Bench, IDLING } from './bench.ts'
import type { Case, Subject } from './subject.ts'

type Try = (bench: Bench) => Promise<void>
type SharedTry = (bench: Bench, target: Awake) => Promise<void>

/** The cases of one subject, and the sandbox that many of them share: to make one costs more than most of what is tried in it. */
export class Suite {
  readonly subject: Subject
  #common: Promise<{ bench: Bench; target: Awake }> | undefined
  #bench: Bench | undefined

  constructor(subject: Subject) {
    this.subject = subject
  }

  /** Cases with a fleet of their own each. */
  own(about: string, tries: Record<string, Try>): Case[] {
    return casesOf(about, tries, async (attempt) => {
      const bench = await Bench.open(this.subject)
      const failed = await failureOf(attempt(bench))
      const left = await failureOf(bench.close())
      // What was tried says more than what could not be cleaned up after it.
      if (failed ?? left) throw failed ?? left
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
    this.#bench = await Bench.open(this.subject)
    return { bench: this.#bench, target: await this.#bench.create({ agent: { command: IDLING } }) }
  }

  async close(): Promise<void> {
    await this.#common?.catch(() => {})
    await this.#bench?.close()
  }
}

async function failureOf(attempt: Promise<void>): Promise<unknown> {
  return attempt.then(
    () => undefined,
    (error: unknown) => error,
  )
}

function casesOf<T>(about: string, tries: Record<string, T>, run: (attempt: T) => Promise<void>): Case[] {
  return Object.entries(tries).map(([name, attempt]) => ({ about, name, run: () => run(attempt) }))
}
