import type { Call } from '../backend.ts'
import type { Account } from './account.ts'
import { requireInstance } from './instance.ts'

/** One port is reached from outside: the one that was asked for when it was made. */
export async function previewUrl(account: Account, ref: string, port: number, call: Call): Promise<string | undefined> {
  const { info } = await requireInstance(account, ref, call)
  return info.networkPort === port ? info.url : undefined
}
