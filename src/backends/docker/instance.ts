import { BackendError, type Call, type Owner } from '../backend.ts'
import { type Container, inspectContainer, listContainers, type Summary, summaryName } from './containers.ts'
import { findImage, type Image } from './images.ts'
import { IMAGE_LABEL, LABEL } from './labels.ts'
import { asleepImage, isContainerId, isOurs, parseContainerName } from './names.ts'
import type { Site } from './site.ts'

/** All that there is of a sandbox at the engine; each part as it was seen, and none of them may be there. */
export type Instance = {
  ref: string
  /** Made by somebody else: it has no labels, and can get none. */
  isAdopted: boolean
  agent: Container | undefined
  sidecar: Summary | undefined
  /** The image that it sleeps as, or is being woken from. Not looked for once all has been started. */
  asleep: Image | undefined
}

export async function findInstance(site: Site, ref: string, call: Call): Promise<Instance> {
  if (isContainerId(ref)) return findAdopted(site, ref, call)
  const nothing: Instance = { ref, isAdopted: false, agent: undefined, sidecar: undefined, asleep: undefined }
  if (!isOurs(site.home, ref)) return nothing
  const parts = await listContainers(site, { [LABEL.ref]: ref }, call)
  // Of that name, too: what somebody has made by hand, with the same labels, is not the sandbox.
  const mine = parts.find(
    (part) => part.Labels[LABEL.part] === 'agent' && parseContainerName(summaryName(part)).base === ref,
  )
  const sidecar = parts.find((part) => part.Labels[LABEL.part] === 'sidecar')
  const agent = await inspectContainer(site, mine?.Id ?? ref, call)
  // A list alone proves nothing: of one that it lacks, the engine has to say by its name that there is none.
  const fleet = agent?.labels[LABEL.fleet]
  // A fleet's name may be the beginning of another's, and so may a ref be of its refs.
  if (fleet && fleet !== site.home.fleet)
    throw new BackendError('spec_invalid', `${ref} belongs to fleet ${fleet}, and not to ${site.home.fleet}`)
  if (agent && agent.labels[LABEL.ref] !== ref) return { ...nothing, sidecar }
  const isStarted = agent && agent.state !== 'created' && sidecar?.State !== 'created'
  const asleep = isStarted ? undefined : await findAsleep(site, ref, call)
  return { ...nothing, agent, sidecar, asleep }
}

async function findAsleep(site: Site, ref: string, call: Call): Promise<Image | undefined> {
  const image = await findImage(site, asleepImage(site.home, ref), call)
  return image?.labels[IMAGE_LABEL.ref] === ref ? image : undefined
}

async function findAdopted(site: Site, ref: string, call: Call): Promise<Instance> {
  const agent = await inspectContainer(site, ref, call)
  const fleet = agent?.labels[LABEL.fleet]
  if (fleet !== undefined && fleet !== '')
    throw new BackendError(
      'spec_invalid',
      fleet === site.home.fleet
        ? `Container ${ref} is ${agent?.labels[LABEL.ref]}, and is known by that name only`
        : `Container ${ref} belongs to fleet ${fleet}, and not to ${site.home.fleet}`,
    )
  return { ref, isAdopted: true, agent, sidecar: undefined, asleep: undefined }
}

export function isThere({ agent, sidecar, asleep }: Instance): boolean {
  return agent !== undefined || sidecar !== undefined || asleep !== undefined
}

export function expired({ home }: Site, ref: string): BackendError {
  return new BackendError('sandbox_expired', `The Docker engine has no sandbox ${ref} of fleet ${home.fleet}`)
}

/** As its labels say. One that was adopted has none, and is nobody's by them. */
export function ownerOf({ agent, asleep }: Instance): Owner {
  const [own = {}, image = {}] = [agent?.labels, asleep?.labels]
  return {
    sandboxId: own[LABEL.sandbox] ?? image[IMAGE_LABEL.sandbox] ?? '',
    life: own[LABEL.life] ?? image[IMAGE_LABEL.life] ?? '',
  }
}
