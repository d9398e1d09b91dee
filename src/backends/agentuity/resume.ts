import { BackendError, type Call } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal, type Refusal } from './errors.ts'
import { enter } from './inside.ts'
import { expired, type Instance, type Running, requireInstance } from './instance.ts'
import { checkpointShown, isSettled, missing } from './pauses.ts'
import { ask } from './request.ts'
import { lookUntil, nap } from './waiting.ts'
import { hasWitness } from './witness.ts'

/** How Agentuity says that there is nothing to resume from; also as long as that is still being written. */
const NO_CHECKPOINT = /no checkpoint/i

/**
 * Wakes it, waits until it is seen to be awake, and looks for what it should still have: Agentuity has woken sandboxes without
 * their files.
 *
 * Refused (409), it is on its way, or was woken by somebody else, or its checkpoint is still being written, or there is none: the
 * status is the same, and the words may be. So it is tried again a few times, and then judged by how long it sleeps.
 */
export async function resume(
  account: Account,
  { ref, checkpointRef }: { ref: string; checkpointRef: string | undefined },
  call: Call,
): Promise<void> {
  const awake = await wakeUp(account, ref, checkpointRef, call)
  if (awake.owner && !(await enter(account, awake, call, (inside) => hasWitness(inside, call))))
    throw new BackendError(
      'checkpoint_corrupt',
      `Agentuity has woken ${ref} from ${checkpointRef ?? 'its checkpoint'}, and its files are gone`,
    )
}

async function wakeUp(account: Account, ref: string, checkpointRef: string | undefined, call: Call): Promise<Running> {
  for (let tries = 0; ; tries++) {
    const instance = await requireInstance(account, ref, call)
    if (instance.is === 'running') return instance
    if (instance.is === 'lost') throw expired(ref, instance.why)
    let why: Error
    if (instance.is === 'asleep') {
      const refusal = await askToResume(account, ref, call)
      if (!refusal) return comesAwake(account, ref, call)
      why = judge(account, instance, checkpointRef, refusal)
    } else why = new BackendError('sandbox_unreachable', `${ref} is on its way: ${instance.why}`)
    const ms = account.patience.refusedMs[tries]
    if (ms === undefined) throw why
    await nap(ms, call)
  }
}

/** Undefined where it is done; otherwise why not, which has to be seen. */
async function askToResume(account: Account, ref: string, call: Call): Promise<Refusal | undefined> {
  try {
    await ask(account, call, (sdk, client, common) => sdk.sandboxResume(client, { ...common, sandboxId: ref }), {
      isSlow: true,
    })
    return undefined
  } catch (error) {
    if (isRefusal(error, 404, 409, 410)) return error
    throw error
  }
}

async function comesAwake(account: Account, ref: string, call: Call): Promise<Running> {
  const seen = await lookUntil(
    account.patience.lagMs,
    call,
    () => requireInstance(account, ref, call),
    ({ is }) => is === 'running' || is === 'lost',
  )
  if (seen.is === 'running') return seen
  if (seen.is === 'lost') throw expired(ref, seen.why)
  throw new BackendError(
    'sandbox_unreachable',
    `Agentuity says that ${ref} was resumed, and shows it as ${seen.info.status}`,
  )
}

/** One that has slept for long enough, and is said to have no checkpoint, has none. */
function judge(
  account: Account,
  instance: Extract<Instance, { is: 'asleep' }>,
  checkpointRef: string | undefined,
  refusal: Refusal,
): Error {
  if (!NO_CHECKPOINT.test(refusal.text) || !isSettled(account, instance)) return refusal
  return missing(instance.ref, checkpointRef ?? checkpointShown(instance), refusal.text)
}
