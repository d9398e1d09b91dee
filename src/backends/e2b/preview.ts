import type { Call } from '../backend.ts'
import type { Account } from './account.ts'
import { requireInstance } from './instance.ts'

export async function previewUrl(account: Account, ref: string, port: number, call: Call): Promise<string> {
  if (account.previewUrl) return account.previewUrl(ref, port)
  const { access } = await requireInstance(account, ref, call)
  return `https://${account.config.getHost(ref, port, access.sandboxDomain ?? account.config.domain)}`
}
