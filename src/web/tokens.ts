import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { Scope, Token } from '../config-values.ts'

/** A token as the web knows it: enough to recognize its secret and to sign sessions, and neither gives the secret back. */
export type KnownToken = { name: string; scope: Scope; hash: Buffer; sessionKey: Buffer }

/** Who may call. Only hashes are kept, and they are compared whole, so that neither memory nor time gives a secret away. */
export class KnownTokens {
  readonly all: readonly KnownToken[]

  constructor(tokens: readonly Token[]) {
    this.all = tokens.map(({ name, scope, secret }) => ({
      name,
      scope,
      hash: sha256(secret),
      sessionKey: Buffer.from(hkdfSync('sha256', secret, 'sandman', 'session', 32)),
    }))
  }

  /** All of them are compared, also behind the right one. */
  match(secret: string): KnownToken | undefined {
    const hash = sha256(secret)
    let matching: KnownToken | undefined
    for (const token of this.all) if (timingSafeEqual(token.hash, hash)) matching = token
    return matching
  }

  named(name: string): KnownToken[] {
    return this.all.filter((token) => token.name === name)
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
