import { BackendError, type Call, type CheckpointCondition } from '../backend.ts'
import type { Account } from './account.ts'
import { isRefusal } from './errors.ts'
import { isWokenFrom } from './history.ts'
import { findInstance, type Instance } from './instance.ts'
import { ask } from './request.ts'

/** Sandbox and checkpoint are one at Agentuity, but each pause has a checkpoint of its own: the name says both. */
export function pauseRef(ref: string, checkpointId: string): string {
  return `${ref}@${checkpointId}`
}

export function isPause(checkpointRef: string): boolean {
  return checkpointRef.includes('@')
}

/**
 * A run is named after the checkpoint that it was woken from. When that is shown again as what the sandbox sleeps on, the run has
 * left nothing.
 */
export function precedes(checkpointRef: string, incarnation: string): boolean {
  return isWokenFrom(incarnation, checkpointRef.split('@')[1] ?? '')
}

/** What a sleeping sandbox sleeps on, as far as its history shows it. */
export function checkpointShown(instance: Instance): string | undefined {
  const checkpoint = instance.is === 'asleep' ? instance.sleep?.checkpoint : undefined
  return checkpoint && pauseRef(instance.ref, checkpoint.id)
}

/** Whether it sleeps for so long that what is not recorded by now never will be. A sleep that nobody has told of is not judged. */
export function isSettled({ patience }: Account, { sleep }: Extract<Instance, { is: 'asleep' }>): boolean {
  return sleep !== undefined && Date.now() - sleep.since.getTime() >= patience.settlingMs
}

/**
 * Ready is what Agentuity shows: in the list of checkpoints, or, where it refuses to list those of a sandbox that sleeps, in the
 * sandbox's history. What a pause has answered is not enough. A list that hangs proves nothing, neither way.
 */
export async function verifyPause(account: Account, checkpointRef: string, call: Call): Promise<CheckpointCondition> {
  const [ref = '', id = ''] = checkpointRef.split('@')
  const instance = await findInstance(account, ref, call)
  if (!instance) return { is: 'missing', why: `Agentuity says that there is no sandbox ${ref}` }
  if (instance.is === 'changing') return { is: 'pending' }
  if (instance.is === 'lost') return { is: 'missing', why: `of ${ref} there are only remains: ${instance.why}` }
  if (instance.is === 'running') return { is: 'missing', why: `${ref} runs, as ${instance.incarnation}` }
  const listed = await listCheckpoints(account, ref, call)
  const recorded = instance.sleep?.checkpoint
  const isShown = listed === 'refused' ? recorded?.id === id : listed.includes(id)
  if (isShown) {
    const sizeBytes = recorded?.id === id ? recorded.sizeBytes : undefined
    return { is: 'ready', ...(sizeBytes !== undefined && { sizeBytes }) }
  }
  if (!isSettled(account, instance)) return { is: 'pending' }
  const where = listed === 'refused' ? 'its history' : 'the list of its checkpoints'
  return { is: 'missing', why: `${ref} sleeps${recorded ? ` on ${recorded.id}` : ''}, and ${where} has no ${id}` }
}

/** Those of a sandbox that sleeps are refused by Agentuity, as it says itself. */
async function listCheckpoints(account: Account, ref: string, call: Call): Promise<string[] | 'refused'> {
  try {
    const listed = await ask(
      account,
      call,
      (sdk, client, common) => sdk.diskCheckpointList(client, { ...common, sandboxId: ref }),
      { withinMs: account.patience.checkpointsMs },
    )
    return listed.map(({ id }) => id)
  } catch (error) {
    if (isRefusal(error, 409)) return 'refused'
    throw error
  }
}

export function missing(ref: string, checkpointRef: string | undefined, why: string): BackendError {
  const what = checkpointRef ?? `${ref}, of which no checkpoint is known`
  return new BackendError('checkpoint_missing', `Cannot resume from ${what}: ${why}`)
}
