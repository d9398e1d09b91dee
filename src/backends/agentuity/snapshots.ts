import type { SnapshotInfo } from '@agentuity/server'
import { BackendError, type Call, type CheckpointCondition, type Target } from '../backend.ts'
import { byAge, readPages } from '../pages.ts'
import type { Account } from './account.ts'
import { isRefusal } from './errors.ts'
import { requireInstance, requireRunning } from './instance.ts'
import { pageOfSnapshots } from './lists.ts'
import { isOurs, isSnapshotId, snapshotName } from './names.ts'
import { isPause, verifyPause } from './pauses.ts'
import { ask, remove, unlessGone } from './request.ts'

/**
 * Copies a sandbox, which runs on. The key is part of the name, by which it is found again. Asked by two at once, Agentuity may
 * make two: both see both, and whoever did not make the oldest deletes its own.
 */
export async function takeSnapshot(
  account: Account,
  target: Target,
  { key }: { key: string },
  call: Call,
): Promise<{ checkpointRef: string }> {
  const { ref } = target
  const instance = await requireInstance(account, ref, call)
  const name = snapshotName(account, ref, instance.owner, key)
  const [taken] = await findSnapshots(account, ref, name, call)
  if (taken) return { checkpointRef: taken.ref }
  requireRunning(instance, target)
  const { snapshotId } = await ask(
    account,
    call,
    (sdk, client, common) => sdk.snapshotCreate(client, { ...common, sandboxId: ref, name, public: false }),
    { isSlow: true },
  ).catch(async (error: unknown) => {
    // One that sleeps, or is gone, is refused in many ways: what is true of it says more.
    if (isRefusal(error, 404, 409, 410)) requireRunning(await requireInstance(account, ref, call), target)
    throw error
  })
  const [oldest] = await findSnapshots(account, ref, name, call)
  if (!oldest || oldest.ref === snapshotId) return { checkpointRef: snapshotId }
  await deleteSnapshot(account, snapshotId, call)
  return { checkpointRef: oldest.ref }
}

async function findSnapshots(account: Account, sandboxId: string, name: string, call: Call) {
  const found: { ref: string; born: string }[] = []
  for await (const each of readPages('Agentuity', (cursor) => pageOfSnapshots(account, { sandboxId }, cursor, call)))
    if (each.name === name) found.push({ ref: each.snapshotId, born: each.createdAt })
  return found.sort(byAge)
}

/** Undefined where Agentuity says that there is none. */
async function findSnapshot(account: Account, snapshotId: string, call: Call): Promise<SnapshotInfo | undefined> {
  if (!isSnapshotId(snapshotId)) return undefined
  const asked = ask(account, call, (sdk, client, common) => sdk.snapshotGet(client, { ...common, snapshotId }))
  return unlessGone(account, 'snapshot', snapshotId, call, asked)
}

export async function verifyCheckpoint(account: Account, ref: string, call: Call): Promise<CheckpointCondition> {
  if (isPause(ref)) return verifyPause(account, ref, call)
  const found = await findSnapshot(account, ref, call)
  return found
    ? { is: 'ready', sizeBytes: found.sizeBytes }
    : { is: 'missing', why: `Agentuity says that there is no snapshot ${ref}` }
}

/** Of a pause there is nothing to delete: it goes with its sandbox. */
export async function discardCheckpoint(account: Account, ref: string, call: Call): Promise<void> {
  if (isPause(ref)) return
  const found = await findSnapshot(account, ref, call)
  if (!found) return
  if (!isOurs(account, found.name))
    throw new BackendError('spec_invalid', `${ref} was not taken by fleet ${account.fleet}, so it does not delete it`)
  await deleteSnapshot(account, ref, call)
}

async function deleteSnapshot(account: Account, snapshotId: string, call: Call): Promise<void> {
  const asked = ask(account, call, (sdk, client, common) => sdk.snapshotDelete(client, { ...common, snapshotId }), {
    isSlow: true,
  })
  await remove(account, 'snapshot', snapshotId, call, asked).catch((error: unknown) => {
    if (!isRefusal(error, 409)) throw error
    throw new BackendError('in_use', `${snapshotId} cannot be deleted yet: ${error.text}`)
  })
}
