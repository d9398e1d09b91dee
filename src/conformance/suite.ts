import { type Awake, Bench, IDLING } from './bench.ts'
import type { Case, Subject } from './subject.ts'

/** A sandbox, and whose it is. */
type Lent = Awake & { sandboxId: string }

type Try = (bench: Bench) => Promise<void>
type SharedTry = (bench: Bench, target: Awake) => Promise<void>
type LentTry = (bench: Bench, target: Lent) => Promise<void>

/** The cases of one subject, and the sandboxes that many of them share: to make one costs more than most of what is tried in it. */
export class Suite {
  readonly subject: Subject
  #common: Promise<{ bench: Bench; target: Awake }> | undefined
  #bench: Bench | undefined
  #lent: { bench: Bench; target: Lent } | undefined

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

  /**
   * Cases with a sandbox that nobody else has meanwhile, alone in its fleet, and without an agent. Whatever they do to it: if it can
   * be used afterwards, the next one gets it, and otherwise a new one. Files of theirs may stay in it, but nothing that runs.
   */
  lent(about: string, tries: Record<string, LentTry>): Case[] {
    return casesOf(about, tries, async (attempt) => {
      const { bench, target } = this.#lent ?? (await this.#makeLent())
      this.#lent = undefined
      const failed = await failureOf(attempt(bench, target))
      const left = await failureOf(failed ? bench.close() : this.#takeBack(bench, target))
      if (failed ?? left) throw failed ?? left
    })
  }

  async #makeLent(): Promise<{ bench: Bench; target: Lent }> {
    const bench = await Bench.open(this.subject)
    const { sandboxId, life } = bench.wanted()
    return { bench, target: { ...(await bench.create({}, { sandboxId, life })), sandboxId } }
  }

  /** As it was lent: awake, the only one of its fleet, and with no checkpoint. */
  async #takeBack(bench: Bench, { ref, sandboxId }: Lent): Promise<void> {
    const asleep = await bench.look(ref)
    if (asleep.is === 'suspended') await bench.resume(ref, asleep.checkpointRef).catch(() => {})
    const seen = await bench.look(ref)
    const others = (await bench.instances()).filter((listed) => listed.ref !== ref)
    if (seen.is !== 'running' || others.length > 0 || (await failureOf(bench.discardAll()))) return bench.close()
    this.#lent = { bench, target: { ref, incarnation: seen.incarnation, sandboxId } }
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
    await this.#lent?.bench.close()
    await this.#bench?.close()
  }
}

async function failureOf(attempt: Promise<void>): Promise<unknown> {
  return attempt.then(
    () => undefined,
    (error: unknown) => error ?? new Error('undefined was thrown'),
  )
}

function casesOf<T>(about: string, tries: Record<string, T>, run: (attempt: T) => Promise<void>): Case[] {
  return Object.entries(tries).map(([name, attempt]) => ({ about, name, run: () => run(attempt) }))
}
