import type { Call } from '../backend.ts'
import { Moved } from './containers.ts'
import { isAbsent, says, Unreadable } from './errors.ts'
import { IMAGE_LABEL, type Labels, WITHOUT_CONTAINER_LABELS } from './labels.ts'
import { asleepImage, isContainerId } from './names.ts'
import type { Site } from './site.ts'

export type Image = { id: string; tags: string[]; labels: Labels; sizeBytes: number; layers: number }

type Inspected = {
  Id: string
  RepoTags: string[] | null
  Size: number
  Config?: { Labels: Labels | null } | null
  RootFS?: { Layers?: string[] | null }
}

/** Undefined when the engine says that there is no such image. */
export async function findImage({ engine }: Site, name: string, call: Call): Promise<Image | undefined> {
  const path = `/images/${name}/json`
  try {
    const image = await engine.json<Inspected>({ method: 'GET', path }, call)
    if (typeof image.Id !== 'string') throw new Unreadable(path, JSON.stringify(image))
    return {
      id: image.Id,
      tags: image.RepoTags ?? [],
      labels: image.Config?.Labels ?? {},
      sizeBytes: image.Size,
      layers: image.RootFS?.Layers?.length ?? 0,
    }
  } catch (error) {
    if (isAbsent(error, 'image', name)) return undefined
    throw error
  }
}

export type ListedImage = { id: string; tags: string[]; labels: Labels }

/** Those of this fleet that have these labels. */
export async function listImages({ engine, home }: Site, labels: Labels, call: Call): Promise<ListedImage[]> {
  const label = Object.entries({ [IMAGE_LABEL.fleet]: home.fleet, ...labels }).map(([name, of]) => `${name}=${of}`)
  const path = '/images/json'
  type Listed = { Id: string; RepoTags: string[] | null; Labels: Labels | null }
  const listed = await engine.json<Listed[]>({ method: 'GET', path, query: { filters: { label } } }, call)
  if (!Array.isArray(listed)) throw new Unreadable(path, JSON.stringify(listed))
  return listed
    .map(({ Id, RepoTags, Labels }) => ({ id: Id, tags: RepoTags ?? [], labels: Labels ?? {} }))
    .filter((image) => image.labels[IMAGE_LABEL.fleet] === home.fleet)
}

/**
 * Writes what a container has on its disk as an image of this name. It stands still meanwhile, if it runs. Of several who write one
 * of the same name at once, the last one wins; the other images are nobody's then, and are removed.
 */
export async function commit(site: Site, container: string, name: string, labels: Labels, call: Call): Promise<void> {
  const [repo, tag] = name.split(':')
  const before = await findImage(site, name, call)
  const query = { container, repo, tag, pause: true }
  const body = { Labels: { ...WITHOUT_CONTAINER_LABELS, ...labels } }
  const { Id: id } = await site.engine
    .json<{ Id: string }>({ method: 'POST', path: '/commit', query, body }, call)
    .catch((error: unknown) => {
      const isGone = isAbsent(error, 'container', container) || says(error, 409, /being removed|is dead/i)
      throw isGone ? new Moved(container, error) : error
    })
  const written = await findImage(site, name, call)
  for (const other of [before?.id, id])
    if (other !== undefined && other !== written?.id) await forget(site, other, call)
}

/** Takes a name away. What a container still needs of the image stays until that is removed. */
export async function untag({ engine }: Site, name: string, call: Call): Promise<void> {
  try {
    await engine.json<object[]>({ method: 'DELETE', path: `/images/${name}`, query: { force: true } }, call)
  } catch (error) {
    // In other words when somebody else takes the same name away in this moment.
    if (!isAbsent(error, 'image', name) && !says(error, 404, /reference does not exist/i)) throw error
  }
}

/**
 * Takes the name of the image that it slept as away from one that runs: whoever woke it may have died before that, and should its
 * container vanish later, it would seem to sleep as that image.
 */
export async function dropAsleep(site: Site, ref: string, call: Call): Promise<void> {
  const name = asleepImage(site.home, ref)
  if (!isContainerId(ref) && (await findImage(site, name, call))) await untag(site, name, call)
}

/** All images of a sandbox that are not snapshots: also those that two who wrote one at once have left without a name. */
export async function forgetAll(site: Site, ref: string, call: Call): Promise<void> {
  for (const { id, tags, labels } of await listImages(site, { [IMAGE_LABEL.ref]: ref }, call)) {
    if (labels[IMAGE_LABEL.kind] === 'snapshot') continue
    for (const tag of tags.filter((each) => !each.includes('<none>'))) await untag(site, tag, call)
    await forget(site, id, call)
  }
}

/** Removes an image of Sandman's that has no name any more, unless somebody needs it. */
export async function forget(site: Site, id: string, call: Call): Promise<void> {
  const image = await findImage(site, id, call)
  if (!image || image.tags.length > 0 || image.labels[IMAGE_LABEL.fleet] !== site.home.fleet) return
  try {
    await site.engine.json<object[]>({ method: 'DELETE', path: `/images/${id}` }, call)
  } catch (error) {
    if (!isAbsent(error, 'image', id) && !says(error, 409, /conflict/i)) throw error
  }
}
