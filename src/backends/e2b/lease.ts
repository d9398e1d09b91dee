import type { Call, Target } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal } from './errors.ts'
import { expired, requireInstance, requireRunning } from './instance.ts'
import { tell } from './request.ts'
import { withTtl } from './ttl.ts'

/** What E2B makes of it, a look shows. Of one that has lived for as long as it may, the end stays where it is. */
export async function setLease(account: Account, target: Target, ttlMs: number, call: Call): Promise<void> {
  const { ref } = target
  requireRunning(await requireInstance(account, ref, call), target)
  const path = { sandboxID: ref }
  await withTtl(ttlMs, (timeout) =>
    tell(account, call, (api, signal) =>
      api.POST('/sandboxes/{sandboxID}/timeout', { params: { path }, body: { timeout }, signal }),
    ),
  ).catch(async (error: unknown) => {
    if (!isRefusal(error, 404)) throw error
    requireRunning(await requireInstance(account, ref, call), target) // one that sleeps is not found, either
    throw expired(ref)
  })
}
