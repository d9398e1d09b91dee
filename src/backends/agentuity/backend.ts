import type { Backend, Call } from '../backend.ts'
import { type AgentuityOptions, openAccount } from './account.ts'
import { agentsInside } from './agents.ts'
import { createInstance } from './create.ts'
import { endInstance } from './end.ts'
import { answer } from './errors.ts'
import { requireInstance } from './instance.ts'
import { findOwned, listCheckpoints, listInstances } from './lists.ts'
import { lookAt } from './look.ts'
import { precedes } from './pauses.ts'
import { previewUrl } from './preview.ts'
import { resume } from './resume.ts'
import { discardCheckpoint, takeSnapshot, verifyCheckpoint } from './snapshots.ts'
import { suspend } from './suspend.ts'

/**
 * Sandboxes at Agentuity, which keep their memory when they are paused, and which Agentuity itself may put to sleep at any time. All
 * knowledge is at Agentuity and inside the sandboxes, so that it makes no difference which worker asks.
 */
export async function openAgentuityBackend(options: AgentuityOptions): Promise<Backend> {
  const account = await openAccount(options)
  const checkpoints = {
    verify: (ref: string, call: Call) =>
      answer('verify a checkpoint', call, () => verifyCheckpoint(account, ref, call)),
    discard: (ref: string, call: Call) =>
      answer('delete a snapshot', call, () => discardCheckpoint(account, ref, call)),
  }

  return {
    name: 'agentuity',

    find: (sandboxId, call) =>
      answer('find sandboxes', call, async () =>
        (await findOwned(account, { sandboxId }, call)).map(({ ref, life }) => ({ ref, life })),
      ),
    create: (wanted, call) => answer('make a sandbox', call, () => createInstance(account, wanted, call)),
    // Its labels cannot be changed any more: who adopts it knows it by its id, and no list shows it as the new owner's.
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
      precedes,
      suspend: (target, _asked, call) => answer('pause a sandbox', call, () => suspend(account, target, call)),
      resume: (sleeping, _asked, call) => answer('resume a sandbox', call, () => resume(account, sleeping, call)),
    },
    snapshots: {
      ...checkpoints,
      take: (target, asked, call) => answer('copy a sandbox', call, () => takeSnapshot(account, target, asked, call)),
    },
    // How long it may be idle is set when it is made, and cannot be changed; and after that it sleeps, which is no end.
    lease: 'none',

    close: async () => {},
  }
}
