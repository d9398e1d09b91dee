import type { Call, Found, ListedCheckpoint, ListedInstance, Listing, Place } from '../backend.ts'
import { listContainers, type Summary, summaryName } from './containers.ts'
import { type ListedImage, listImages } from './images.ts'
import { IMAGE_LABEL, LABEL, type Labels } from './labels.ts'
import {
  asleepImage,
  checkpointRefOf,
  type Home,
  isElsewhere,
  isOurs,
  parseContainerName,
  snapshotImage,
} from './names.ts'
import type { Site } from './site.ts'

const ITEMS_A_PAGE = 500

export function placeOf({ home }: Site): Place {
  // What was adopted has no labels, and so it is in no list.
  return { name: home.engine, holds: (ref) => isHere(home, ref) }
}

function isHere(home: Home, ref: string): boolean {
  return !isElsewhere(home, ref) && isOurs(home, ref)
}

export async function listInstances(site: Site, cursor: string | undefined, call: Call, max = ITEMS_A_PAGE) {
  return page(await allInstances(site, {}, call), cursor, max)
}

export async function findOwned(site: Site, sandboxId: string, call: Call): Promise<Found[]> {
  const owned = await allInstances(site, { sandboxId }, call)
  return owned.map(({ ref, life }) => ({ ref, life }))
}

/** Containers, and images of those that sleep as one; each sandbox once. */
async function allInstances(site: Site, { sandboxId }: { sandboxId?: string }, call: Call): Promise<ListedInstance[]> {
  const ofContainers: Labels = sandboxId === undefined ? {} : { [LABEL.sandbox]: sandboxId }
  const ofImages: Labels = sandboxId === undefined ? {} : { [IMAGE_LABEL.sandbox]: sandboxId }
  const containers = await listContainers(site, ofContainers, call)
  const images = await listImages(site, { [IMAGE_LABEL.kind]: 'disk', ...ofImages }, call)
  const found = new Map<string, ListedInstance>()
  // In this order: of what is told of one sandbox, what is put in last counts.
  for (const part of containers) if (part.Labels[LABEL.part] === 'sidecar') note(found, part.Labels, { isLost: true })
  for (const image of images) noteAsleep(site, found, image)
  for (const part of containers) noteAgent(found, part)
  return [...found.values()]
}

function note(found: Map<string, ListedInstance>, labels: Labels, { isLost }: { isLost: boolean }): void {
  const { [LABEL.ref]: ref, [LABEL.sandbox]: sandboxId, [LABEL.life]: life } = labels
  if (ref && sandboxId && life) found.set(ref, { ref, sandboxId, life, ...(isLost && { isLost }) })
}

function noteAsleep({ home }: Site, found: Map<string, ListedInstance>, { tags, labels }: ListedImage): void {
  const { [IMAGE_LABEL.ref]: ref, [IMAGE_LABEL.sandbox]: sandboxId, [IMAGE_LABEL.life]: life } = labels
  if (ref && sandboxId && life && isHere(home, ref) && tags.includes(asleepImage(home, ref)))
    found.set(ref, { ref, sandboxId, life })
}

/** One that was made by hand, with the same labels, is not the sandbox. */
function noteAgent(found: Map<string, ListedInstance>, part: Summary): void {
  const { base, sleep } = parseContainerName(summaryName(part))
  if (part.Labels[LABEL.part] !== 'agent' || base !== part.Labels[LABEL.ref]) return
  const hasEnded = part.State === 'exited' || part.State === 'dead'
  note(found, part.Labels, { isLost: hasEnded && (!sleep || sleep.mode === 'freeze') })
}

/** Snapshots. What a pause leaves is the sandbox itself, and is listed as that. */
export async function listCheckpoints(
  site: Site,
  cursor: string | undefined,
  call: Call,
  max = ITEMS_A_PAGE,
): Promise<Listing<ListedCheckpoint>> {
  const images = await listImages(site, { [IMAGE_LABEL.kind]: 'snapshot' }, call)
  const listed = images.flatMap(({ tags, labels }): ListedCheckpoint[] => {
    const { [IMAGE_LABEL.ref]: ref, [IMAGE_LABEL.key]: key, [IMAGE_LABEL.sandbox]: sandboxId } = labels
    if (!ref || !key || !sandboxId) return [] // of what was adopted nobody here can say whose it is
    const name = { ref, kind: 'snapshot', key } as const
    // An image that somebody has given another name is not the checkpoint.
    return tags.includes(snapshotImage(site.home, name))
      ? [{ ref: checkpointRefOf(name), sandboxId, kind: 'snapshot' }]
      : []
  })
  return page(listed, cursor, max)
}

/** The engine knows no pages. In the order of their names, which no change of the list changes; the cursor is the last one. */
function page<T extends { ref: string }>(all: T[], cursor = '', max: number): Listing<T> {
  const left = all.filter(({ ref }) => ref > cursor).sort((a, b) => (a.ref < b.ref ? -1 : 1))
  const items = left.slice(0, max)
  return { items, next: left.length > max ? items.at(-1)?.ref : undefined }
}
