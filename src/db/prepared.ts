import { createHash } from 'node:crypto'
import pg from 'pg'

/**
 * Planning one of the ledger's statements takes longer than running it, so a connection plans each of them once. A statement
 * takes part by beginning with a comment that names it, which also makes it easy to find in pg_stat_statements. Its text must
 * not vary with its values, or every variation is planned and kept; its columns must not be `*`, or a migration breaks it.
 */
const MARK = /^\s*\/\* (\w+) \*\//

const nameOf = new Map<string, string>()

export class PreparingClient extends pg.Client {
  // One signature for the dozen that pg declares: all that is looked at is the text, and all else is passed on.
  override query(...args: unknown[]): never {
    const [text, values, ...rest] = args
    const mark = typeof text === 'string' ? MARK.exec(text)?.[1] : undefined
    const passOn = super.query as (...args: unknown[]) => never
    if (mark === undefined) return passOn.apply(this, args)
    return passOn.call(this, { text, values, name: preparedName(mark, text as string) }, ...rest)
  }
}

function preparedName(mark: string, text: string): string {
  const known = nameOf.get(text)
  if (known) return known
  const name = `${mark} ${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  nameOf.set(text, name)
  return name
}
