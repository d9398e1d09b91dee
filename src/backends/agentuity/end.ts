import type { Call, Target } from '../backend.ts'
import type { Account } from './account.ts'
import { findInstance, requireEndable } from './instance.ts'
import { ask, remove } from './request.ts'

/** Looks first, so that a late call does not hit what was resumed meanwhile. Agentuity itself takes no such condition. */
export async function endInstance(account: Account, target: Target, call: Call): Promise<void> {
  const instance = await findInstance(account, target.ref, call)
  if (!instance) return
  requireEndable(instance, target)
  await destroy(account, target.ref, call)
}

/** With all that it could be resumed from. */
export async function destroy(account: Account, ref: string, call: Call): Promise<void> {
  const asked = ask(account, call, (sdk, client, common) => sdk.sandboxDestroy(client, { ...common, sandboxId: ref }), {
    isSlow: true,
  })
  await remove(account, 'sandbox', ref, call, asked)
}
