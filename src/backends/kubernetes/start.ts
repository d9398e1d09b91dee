import { BackendError, type Call } from '../backend.ts'
import type { Cluster } from './cluster.ts'
import type { Pod } from './pod.ts'
import { type PodState, stateOf } from './pod-state.ts'

/** How long one that is made is watched for what is wrong with it. One that needs longer is on its way, and whoever looks sees that. */
const BEGUN_MS_MAX = 15_000
const LOOK_AGAIN_MS = 2_000

/** That no retry will help, in the words of registries and of those who pull from them. */
const NO_SUCH_IMAGE =
  /not found|manifest unknown|does not exist|pull access denied|insufficient_scope|authorization failed|unauthorized|InvalidImageName|couldn't parse image/i
const WRONG = ['InvalidImageName', 'ErrImageNeverPull', 'CreateContainerConfigError']
/** A node that has not heard of a secret yet says that the configuration is wrong, too. */
const WILL_PASS = /timed out|failed to sync/i

/**
 * Returns when it has begun, or has been on its way for a while. What can never begin is deleted again, and said to be wrong: it would be
 * tried for ever.
 */
export async function whenBegun(
  cluster: Cluster,
  ref: string,
  call: Call,
  { find, remove }: { find(): Promise<Pod | undefined>; remove(pod: Pod): Promise<unknown> },
): Promise<void> {
  for (const until = Date.now() + BEGUN_MS_MAX; ; ) {
    const pod = await find()
    const state = pod && stateOf(pod)
    if (pod && state?.is === 'refused' && isWrong(state)) {
      await remove(pod)
      throw new BackendError('spec_invalid', `${ref} cannot be made as it is: ${state.why}`)
    }
    const isOnItsWay = !state || ['refused', 'starting', 'unscheduled'].includes(state.is)
    if (!isOnItsWay || Date.now() > until) return
    await cluster.watch.change(pod?.name ?? ref.slice(ref.lastIndexOf('/') + 1), LOOK_AGAIN_MS, call)
  }
}

function isWrong({ reason, why }: Extract<PodState, { is: 'refused' }>): boolean {
  if (WILL_PASS.test(why)) return false
  return WRONG.includes(reason) || (/ImagePull/.test(reason) && NO_SUCH_IMAGE.test(why))
}
