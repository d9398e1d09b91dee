import { BackendError, type Call, type CheckpointCondition, type Target } from '../backend.ts'
import { readPages } from '../pages.ts'
import type { Account } from './account.ts'
import { isRefusal, Refusal } from './errors.ts'
import { expired, requireInstance, requireRunning } from './instance.ts'
import { pageOfSnapshots } from './pages.ts'
import { isPause, verifyPause } from './pausing.ts'
import { fetchFrom, tell } from './request.ts'
import { isOurs, nameOf, Snapshot, snapshotName } from './snapshot-names.ts'

/**
 * Copies a sandbox, which stands still meanwhile, and runs on. The key is part of the name, and E2B keeps one template of a name.
 */
export async function takeSnapshot(
  account: Account,
  target: Target,
  { key }: { key: string },
  call: Call,
): Promise<{ checkpointRef: string }> {
  const { ref } = target
  const instance = await requireInstance(account, ref, call)
  const name = snapshotName(account, instance, key)
  const taken = await findSnapshot(account, (found) => nameOf(found) === name, { name }, call)
  if (taken !== undefined) return { checkpointRef: taken }
  requireRunning(instance, target)
  const path = { sandboxID: ref }
  const { data } = await fetchFrom(
    account,
    call,
    Snapshot,
    (api, signal) => api.POST('/sandboxes/{sandboxID}/snapshots', { params: { path }, body: { name }, signal }),
    { isSlow: true },
  ).catch(async (error: unknown) => {
    if (!isRefusal(error, 404)) throw error
    requireRunning(await requireInstance(account, ref, call), target) // says what is true, if it is not that
    throw expired(ref)
  })
  return { checkpointRef: data.snapshotID }
}

async function findSnapshot(
  account: Account,
  isMeant: (snapshotId: string) => boolean,
  asked: { name?: string },
  call: Call,
): Promise<string | undefined> {
  for await (const { snapshotID } of readPages('E2B', (cursor) => pageOfSnapshots(account, asked, cursor, call)))
    if (isMeant(snapshotID)) return snapshotID
  return undefined
}

/** By its name, and where that finds nothing among all there are, before it is said to be missing. */
export async function verifyCheckpoint(account: Account, ref: string, call: Call): Promise<CheckpointCondition> {
  if (isPause(ref)) return verifyPause(account, ref, call)
  for (const asked of [{ name: ref }, {}])
    if ((await findSnapshot(account, (found) => found === ref, asked, call)) !== undefined) return { is: 'ready' }
  return { is: 'missing', why: `E2B lists no snapshot ${ref}` }
}

/** Of a pause there is nothing to delete: it is the sandbox itself. */
export async function discardCheckpoint(account: Account, ref: string, call: Call): Promise<void> {
  if (isPause(ref)) return
  if (!isOurs(account, ref))
    throw new BackendError('spec_invalid', `${ref} was not taken by fleet ${account.fleet}, so it does not delete it`)
  const path = { templateID: ref }
  await tell(account, call, (api, signal) => api.DELETE('/templates/{templateID}', { params: { path }, signal })).catch(
    (error: unknown) => {
      if (isRefusal(error, 404)) return
      if (error instanceof Refusal && error.is(400) && /sandboxes using it/i.test(error.text))
        throw new BackendError('in_use', `${ref} is in use, and can be deleted when that has ended: ${error.text}`)
      throw error
    },
  )
}
