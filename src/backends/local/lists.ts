import { readdir } from 'node:fs/promises'
import type { Call, ListedCheckpoint, ListedInstance, Listing, Place, Sighting } from '../backend.ts'
import { readManifest } from './checkpoints.ts'
import { type Home, isElsewhere } from './home.ts'
import { findInstance } from './instance.ts'
import { lookAt } from './look.ts'

const INSTANCES_A_PAGE = 500
/** Fewer, because a manifest names every file of a workspace and may have megabytes. */
const CHECKPOINTS_A_PAGE = 100

/** What the system says when it lets nobody read anything, as opposed to what it says of one file. */
const SHORTAGES = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

export const NOTHING: Listing<never> = { items: [], next: undefined }

export function placeOf(home: Home): Place {
  return { name: home.id, holds: (ref) => !isElsewhere(home, ref) }
}

export async function listInstances(
  home: Home,
  cursor: string | undefined,
  call: Call,
  max = INSTANCES_A_PAGE,
): Promise<Listing<ListedInstance>> {
  return list({ folder: home.instances, cursor, max, call }, async (ref) => {
    const instance = await findInstance(home, ref)
    const { fleet, mark, sandboxId, life } = instance?.labels ?? {}
    // By the mark of a copy that somebody made by hand, the processes of its original would be ended.
    if (!instance || fleet !== home.fleet || !mark?.startsWith(`${ref}.`) || !sandboxId || !life) return undefined
    const seen = await lookAt(instance).catch(leaveOut)
    return { ref, sandboxId, life, ...(isLost(seen) && { isLost: true as const }) }
  })
}

function isLost(seen: Sighting | undefined): boolean {
  return seen?.is === 'lost' || (seen?.is === 'suspended' && seen.broken !== undefined)
}

/** By what their manifests say. Whether they are whole is for `verify` to say. */
export async function listCheckpoints(
  home: Home,
  cursor: string | undefined,
  call: Call,
  max = CHECKPOINTS_A_PAGE,
): Promise<Listing<ListedCheckpoint>> {
  return list({ folder: home.checkpoints, cursor, max, call }, async (ref) => {
    const manifest = await readManifest(home, ref)
    if (manifest?.fleet !== home.fleet || manifest.checkpointRef !== ref) return undefined
    return { ref, sandboxId: manifest.sandboxId, kind: manifest.takenBy }
  })
}

type Asked = { folder: string; cursor: string | undefined; max: number; call: Call }

/** In the order of their names, which no change of the folder changes. The cursor is the last one that was looked at. */
async function list<T>({ folder, cursor = '', max, call }: Asked, read: (ref: string) => Promise<T | undefined>) {
  const left = (await readdir(folder)).filter((name) => name > cursor).sort()
  const page = left.slice(0, max)
  const items: T[] = []
  for (const ref of page) {
    call.signal.throwIfAborted()
    const item = await read(ref).catch(leaveOut)
    if (item) items.push(item)
  }
  return { items, next: left.length > max ? page.at(-1) : undefined }
}

/** Nobody here can say whose it is, and it hides none of the others. */
function leaveOut(error: NodeJS.ErrnoException): undefined {
  if (SHORTAGES.has(error.code ?? '')) throw error
}
