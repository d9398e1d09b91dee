import type { Backend, Call } from '../backend.ts'
import { type E2bOptions, openAccount } from './account.ts'
import { agentsInside } from './agents.ts'
import { createInstance } from './create.ts'
import { endInstance } from './end.ts'
import { answer } from './errors.ts'
import { requireInstance } from './instance.ts'
import { setLease } from './lease.ts'
import { lookAt } from './look.ts'
import { findOwned, listCheckpoints, listInstances } from './pages.ts'
import { precedes, resume, suspend } from './pausing.ts'
import { previewUrl } from './preview.ts'
import { discardCheckpoint, takeSnapshot, verifyCheckpoint } from './snapshots.ts'

/**
 * Sandboxes at E2B: virtual machines that keep their memory when they are paused, and end by themselves, or sleep, when their time
 * is over. All knowledge is at E2B and inside the sandboxes, so that it makes no difference which worker asks.
 */
export async function openE2bBackend(options: E2bOptions): Promise<Backend> {
  const account = await openAccount(options)
  const checkpoints = {
    verify: (ref: string, call: Call) =>
      answer('verify a checkpoint', call, () => verifyCheckpoint(account, ref, call)),
    discard: (ref: string, call: Call) =>
      answer('delete a snapshot', call, () => discardCheckpoint(account, ref, call)),
  }

  return {
    name: 'e2b',

    find: (sandboxId, call) =>
      answer('find sandboxes', call, async () =>
        (await findOwned(account, { sandboxId }, call)).map(({ ref, life }) => ({ ref, life })),
      ),
    create: (wanted, call) => answer('make a sandbox', call, () => createInstance(account, wanted, call)),
    // Its labels cannot be changed any more: who adopts it knows it by its name, and no list shows it.
    adopt: (ref, _owner, call) =>
      answer('show a sandbox', call, async () => void (await requireInstance(account, ref, call))),
    look: (ref, call) => answer('show a sandbox', call, () => lookAt(account, ref, call)),
    end: (target, call) => answer('end a sandbox', call, () => endInstance(account, target, call)),

    ...agentsInside(account),
    previewUrl: (ref, port, call) => answer('show a sandbox', call, () => previewUrl(account, ref, port, call)),

    lists: {
      // What was adopted is in no list; it is looked at by its name, and found.
      place: async () => ({ name: account.place, holds: () => true }),
      instances: (cursor, call) => answer('list sandboxes', call, () => listInstances(account, cursor, call)),
      checkpoints: (cursor, call) => answer('list snapshots', call, () => listCheckpoints(account, cursor, call)),
    },

    pausing: {
      ...checkpoints,
      preserves: 'memory',
      consumesCheckpoint: true,
      needsCheckpoint: true,
      isShownEarly: true,
      precedes,
      suspend: (target, _asked, call) => answer('pause a sandbox', call, () => suspend(account, target, call)),
      resume: (sleeping, asked, call) => answer('resume a sandbox', call, () => resume(account, sleeping, asked, call)),
    },
    snapshots: {
      ...checkpoints,
      take: (target, asked, call) => answer('copy a sandbox', call, () => takeSnapshot(account, target, asked, call)),
    },
    lease: {
      set: (target, ttlMs, call) => answer('set a time-to-live', call, () => setLease(account, target, ttlMs, call)),
    },

    close: async () => {},
  }
}
