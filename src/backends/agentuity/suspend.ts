import { BackendError, type Call, type Target } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal, Refusal } from './errors.ts'
import { expired, findInstance, type Instance, requireInstance, requireRunning } from './instance.ts'
import { checkpointShown, pauseRef, precedes } from './pauses.ts'
import { ask } from './request.ts'
import { lookUntil } from './waiting.ts'

/**
 * Pauses it, and looks whether that was so. The checkpoint that a pause has answered is only passed on: whether there is one is
 * seen when it is verified. A pause that answered without one is as one whose answer was lost.
 *
 * Asked twice: the second finds it asleep, or is refused (409) while the first is at it.
 * Failed (500): it may run on, may be asleep, or may be terminated.
 */
export async function suspend(
  account: Account,
  target: Target,
  call: Call,
): Promise<{ checkpointRef: string | undefined }> {
  const { ref } = target
  const before = await requireInstance(account, ref, call)
  if (before.is === 'asleep') return { checkpointRef: asleepOn(before, target) }
  requireRunning(before, target)
  const paused = await pause(account, ref, call)
  const isStill = (seen: Instance | undefined) => seen?.is === 'running' && seen.incarnation === before.incarnation
  // What was refused is not waited for. What was done may be shown late.
  const withinMs = paused instanceof Refusal && paused.status !== 409 ? 0 : account.patience.lagMs
  const after = await lookUntil(
    withinMs,
    call,
    () => findInstance(account, ref, call),
    (seen) => seen?.is !== 'changing' && !isStill(seen),
  )
  if (!after) throw expired(ref)
  if (after.is === 'lost') throw expired(ref, after.why)
  if (after.is === 'asleep') {
    const told = paused instanceof Refusal ? undefined : paused.checkpointId
    const shown = asleepOn(after, target)
    return { checkpointRef: shown ?? (told === undefined ? undefined : pauseRef(ref, told)) }
  }
  if (paused instanceof Refusal) throw paused
  throw new BackendError(
    'sandbox_unreachable',
    `Agentuity says that ${ref} was paused, and shows it as ${after.info.status}`,
  )
}

async function pause(
  account: Account,
  ref: string,
  call: Call,
): Promise<{ checkpointId: string | undefined } | Refusal> {
  try {
    const { checkpointId } = await ask(
      account,
      call,
      (sdk, client, common) => sdk.sandboxPause(client, { ...common, sandboxId: ref }),
      { isSlow: true },
    )
    return { checkpointId: checkpointId || undefined }
  } catch (error) {
    if (isRefusal(error, 404, 409, 410, 500)) return error
    throw error
  }
}

/** What it sleeps on; unless that is what the run that was to be paused was woken from. */
function asleepOn(instance: Instance, { ref, incarnation }: Target): string | undefined {
  const shown = checkpointShown(instance)
  if (shown === undefined || !precedes(shown, incarnation ?? '')) return shown
  throw new BackendError(
    'checkpoint_missing',
    `The pause has lost the run of ${incarnation}, and all that Agentuity has of ${ref} is what it was before: ${shown}`,
  )
}
