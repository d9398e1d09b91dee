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
    const name = typeof text === 'string' ? preparedName(text) : undefined
    const passOn = super.query as (...args: unknown[]) => never
    if (name === undefined) return passOn.apply(this, args)
    return passOn.call(this, { text, values, name }, ...rest)
  }
}

function preparedName(text: string): string | undefined {
  const known = nameOf.get(text)
  if (known) return known
  const mark = MARK.exec(text)?.[1]
  if (mark === undefined) return undefined
  const name = `${mark} ${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  nameOf.set(text, name)
  return name
}
