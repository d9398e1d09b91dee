import { z } from 'zod'
import { BackendError, type Call, type CheckpointCondition, type Target, type Waking } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal, Refusal } from './errors.ts'
import { expired, findInstance, type Instance, requireInstance, requireRunning } from './instance.ts'
import { fetchFrom, tell } from './request.ts'
import { withTtl } from './ttl.ts'

const Connected = z.object({ sandboxID: z.string().min(1) })

/**
 * Sandbox and checkpoint are one at E2B. Its name says which run was paused: E2B keeps what a pause has written also after the
 * sandbox was resumed, and shows it again when that run is lost. Then the sandbox sleeps, but as it was long before.
 */
export function pauseRef({ ref, incarnation }: Pick<Instance, 'ref' | 'incarnation'>): string {
  return `${ref}@${incarnation}`
}

export function isPause(checkpointRef: string): boolean {
  return checkpointRef.includes('@')
}

/** Runs are named by the time at which they began. */
export function precedes(checkpointRef: string, incarnation: string): boolean {
  return Date.parse(checkpointRef.split('@')[1] ?? '') < Date.parse(incarnation)
}

/**
 * Pauses it, and looks whether that was so: what E2B says of a pause is not always what became of it.
 *
 * Asked twice: the second waits for the first, or finds it done (409).
 * Refused for now (503): it runs on. Failed (500): it may run on, may be gone, or may be again what it was at an earlier pause.
 */
export async function suspend(account: Account, target: Target, call: Call): Promise<{ checkpointRef: string }> {
  const { ref } = target
  const before = await requireInstance(account, ref, call)
  if (before.isRunning) requireRunning(before, target)
  else if (before.incarnation !== target.incarnation) return asleep(before, target)
  const failure = await pause(account, ref, call)
  const after = await findInstance(account, ref, call)
  if (!after) throw expired(ref)
  if (!after.isRunning) return asleep(after, target)
  throw (
    failure ?? new BackendError('sandbox_unreachable', `E2B says that ${ref} was paused, and shows that it still runs`)
  )
}

/** Undefined where it is done, or is said to be. Otherwise why not, which has to be seen. */
async function pause(account: Account, ref: string, call: Call): Promise<Refusal | undefined> {
  const path = { sandboxID: ref }
  try {
    await tell(
      account,
      call,
      (api, signal) => api.POST('/sandboxes/{sandboxID}/pause', { params: { path }, body: {}, signal }),
      { isSlow: true },
    )
    return undefined
  } catch (error) {
    if (error instanceof Refusal && error.isOwn && [404, 409, 500].includes(error.status)) return error
    throw error
  }
}

/** What it sleeps on; unless that is of an earlier run than the one that was to be paused. */
function asleep(instance: Instance, { ref, incarnation }: Target): { checkpointRef: string } {
  const checkpointRef = pauseRef(instance)
  if (!precedes(checkpointRef, incarnation ?? '')) return { checkpointRef }
  throw new BackendError(
    'checkpoint_missing',
    `The pause has lost the run of ${incarnation}, and all that E2B still has of ${ref} is what it was before: ${checkpointRef}`,
  )
}

/**
 * Connects with a time-to-live: without one, E2B would give it five minutes. Refuses to wake what is not what the checkpoint
 * names.
 */
export async function resume(
  account: Account,
  { ref, checkpointRef }: { ref: string; checkpointRef: string | undefined },
  { ttlMs }: Waking,
  call: Call,
): Promise<void> {
  const instance = await requireInstance(account, ref, call)
  if (instance.isRunning) return
  const there = pauseRef(instance)
  if (checkpointRef !== undefined && checkpointRef !== there) throw missing(checkpointRef, `what sleeps is ${there}`)
  const path = { sandboxID: ref }
  const connected = await withTtl(ttlMs, (timeout) =>
    fetchFrom(
      account,
      call,
      Connected,
      (api, signal) => api.POST('/v2/sandboxes/{sandboxID}/connect', { params: { path }, body: { timeout }, signal }),
      { isSlow: true },
    ),
  ).catch(async (error: unknown) => {
    if (!isRefusal(error, 404)) throw error
    if (!(await findInstance(account, ref, call))) throw expired(ref)
    throw missing(there, `E2B shows it, and cannot resume it: ${error.text}`)
  })
  if (!connected) throw new BackendError('sandbox_unreachable', `E2B wakes ${ref} for no time at all, however short`)
}

function missing(checkpointRef: string, why: string): BackendError {
  return new BackendError('checkpoint_missing', `Cannot resume from ${checkpointRef}: ${why}`)
}

export async function verifyPause(account: Account, checkpointRef: string, call: Call): Promise<CheckpointCondition> {
  const [ref = '', run] = checkpointRef.split('@')
  const instance = await findInstance(account, ref, call)
  if (!instance) return { is: 'missing', why: `E2B says that there is no sandbox ${ref}` }
  const { isRunning, incarnation } = instance
  if (incarnation === run) return isRunning ? { is: 'pending' } : { is: 'ready' }
  return { is: 'missing', why: `${ref} ${isRunning ? 'runs' : 'sleeps'}, and its last run is that of ${incarnation}` }
}
