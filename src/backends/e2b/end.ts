import type { Call, Target } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal } from './errors.ts'
import { findInstance, requireEndable } from './instance.ts'
import { tell } from './request.ts'

/** Looks first, so that a late call does not hit what was resumed meanwhile. E2B itself takes no such condition. */
export async function endInstance(account: Account, target: Target, call: Call): Promise<void> {
  const instance = await findInstance(account, target.ref, call)
  if (!instance) return
  requireEndable(instance, target)
  await killSandbox(account, target.ref, call)
}

/** With all that it could be resumed from. One that is being paused is ended after that, which may take its time. */
export async function killSandbox(account: Account, ref: string, call: Call): Promise<void> {
  const path = { sandboxID: ref }
  await tell(account, call, (api, signal) => api.DELETE('/sandboxes/{sandboxID}', { params: { path }, signal }), {
    isSlow: true,
  }).catch((error: unknown) => {
    if (!isRefusal(error, 404)) throw error
  })
}
