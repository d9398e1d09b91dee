import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { lockFile } from '../../file-lock.ts'
import type { Call } from '../backend.ts'
import { removeRemains } from './end.ts'
import { exists, removeTree } from './files.ts'
import { type Home, isOurs } from './home.ts'

/** Drafts, and what is being removed: what was done to what, and which time. */
const HIDDEN = /^\.(making|ending|discarding)-(.+)~[^~]+$/

/**
 * Removes what workers have left half made or half removed because they were killed. Whoever comes back to the same thing does so by
 * itself; but often nobody does, because it was gone already for everybody who looked. What somebody is at work on, who then has
 * its lock, is left alone.
 */
export async function removeLeftovers(home: Home, call: Call): Promise<void> {
  for (const folder of [home.instances, home.checkpoints]) {
    for (const name of await readdir(folder)) {
      const [, , of] = HIDDEN.exec(name) ?? []
      if (of === undefined) continue
      call.signal.throwIfAborted()
      // A checkpoint is called after its instance and the key of who asked for it.
      const ref = folder === home.instances ? of : of.slice(0, of.lastIndexOf('.'))
      await remove(home, ref, path.join(folder, name))
    }
  }
}

async function remove(home: Home, ref: string, left: string): Promise<void> {
  if (!isOurs(home, ref)) return
  const lock = await lockFile(path.join(home.locks, ref))
  if (typeof lock === 'number') return
  try {
    // An instance of the same name has the same mark: what is ended by that would be its processes.
    const isMadeAnew = await exists(path.join(home.instances, ref))
    await (path.dirname(left) === home.instances && !isMadeAnew ? removeRemains(ref, left) : removeTree(left))
  } finally {
    await lock.release()
  }
}
