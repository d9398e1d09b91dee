import { randomUUID } from 'node:crypto'
import { rename } from 'node:fs/promises'
import path from 'node:path'
import type { Target } from '../backend.ts'
import { removeCgroups } from './cgroups.ts'
import { exists, removeTree, syncFolder } from './files.ts'
import { type Home, isOurs, leftoversOf } from './home.ts'
import { findInstance, readInstance } from './instance.ts'
import { endEverything } from './processes.ts'
import { requireEndable } from './targets.ts'

/**
 * Ends what runs in it, takes it out of sight, and then removes it.
 *
 * Killed half-way: it is still there, and ended again; or it is out of sight, and the remains are found by their name.
 */
export async function endInstance(home: Home, target: Target): Promise<void> {
  if (!isOurs(home, target.ref)) return
  const instance = await findInstance(home, target.ref)
  if (instance) {
    await requireEndable(instance, target)
    await endEverything(instance)
    await rename(instance.folder, path.join(home.instances, `.ending-${target.ref}~${randomUUID()}`))
    await syncFolder(home.instances)
  }
  for (const left of await leftoversOf(home.instances, `.ending-${target.ref}`)) await removeRemains(target.ref, left)
}

/** A supervisor that was just starting may have begun something before the folder was taken away from it. */
export async function removeRemains(ref: string, folder: string): Promise<void> {
  // Without labels, somebody else has come as far as removing the files.
  if (await exists(path.join(folder, 'instance.json'))) {
    const remains = await readInstance(ref, folder)
    if (remains) {
      await endEverything(remains)
      await removeCgroups(remains.labels.cgroups)
    }
  }
  await removeTree(folder)
}
