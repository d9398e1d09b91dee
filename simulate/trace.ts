import { createHash } from 'node:crypto'

/** So much of the end is kept, to be shown when something was found. */
const KEPT = 4_000

type Told = { atMs: number; who: string; what: string }

/** Everything that has happened, in order. Two runs that were the same have the same hash. */
export class Trace {
  readonly #hash = createHash('sha256')
  readonly #last: Told[] = []
  readonly #print: ((line: string) => void) | undefined

  constructor(print?: (line: string) => void) {
    this.#print = print
  }

  tell(atMs: number, who: string, what: string): void {
    const told = { atMs, who, what }
    this.#hash.update(`${atMs} ${who} ${what}\n`)
    this.#last.push(told)
    if (this.#last.length > 2 * KEPT) this.#last.splice(0, KEPT)
    this.#print?.(printTold(told))
  }

  /** What cannot be read, and has to be the same all the same: the rows of an answer. */
  tellSilently(what: string): void {
    this.#hash.update(what)
  }

  /** The last that was said of something. */
  about(names: readonly string[], max: number): Told[] {
    return this.#last.filter(({ what }) => names.some((name) => what.includes(name))).slice(-max)
  }

  digest(): string {
    return this.#hash.copy().digest('hex').slice(0, 16)
  }
}

export function printTold({ atMs, who, what }: Told): string {
  return `${(atMs / 1_000).toFixed(3).padStart(10)} s  ${who.padEnd(12)} ${what}`
}
