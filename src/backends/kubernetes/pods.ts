import { BackendError, type Call, type Found, type ListedInstance, type Listing } from '../backend.ts'
import { readPages } from '../pages.ts'
import type { Cluster } from './cluster.ts'
import { isTooOld, Unreadable } from './errors.ts'
import { ANNOTATION, type KubernetesBackendName, LABEL, type Labels, selectorOf } from './labels.ts'
import { type Home, refOf } from './names.ts'
import { findObject } from './objects.ts'
import { type Pod, podOf, type WireMeta, type WirePod } from './pod.ts'
import { stateOf } from './pod-state.ts'

export const podsPath = ({ namespace }: Pick<Home, 'namespace'>) => `/api/v1/namespaces/${namespace}/pods`

export async function findPod({ api, home }: Cluster, name: string, call: Call): Promise<Pod | undefined> {
  const path = podsPath(home)
  const found = await findObject<WirePod>(api, { kind: 'Pod', path, name }, call)
  return found && podOf(found, `GET ${path}/${name}`)
}

type Known = { name: string; labels: Labels; annotations: Labels }

/** Fails for what is another fleet's, and for what Sandman knows by another name. */
export function requireOwn({ fleet, ...place }: Home, { name, labels, annotations }: Known, ref: string): void {
  const owner = labels[LABEL.fleet]
  if (owner === undefined) return // nobody's; who names it has adopted it, or is about to
  if (owner !== fleet) throw new BackendError('spec_invalid', `${ref} belongs to fleet ${owner}, and not to ${fleet}`)
  const known = annotations[ANNOTATION.ref] ?? refOf({ fleet, ...place }, name)
  if (known !== ref) throw new BackendError('spec_invalid', `${ref} is ${known}, and is known by that name only`)
}

export function expired({ namespace }: Home, ref: string): BackendError {
  return new BackendError('sandbox_expired', `Kubernetes has no ${ref} in namespace ${namespace}`)
}

const PAGE = 500

type ObjectList = { kind?: string; metadata?: { continue?: string }; items?: { metadata?: WireMeta }[] }

/** A page of what carries this fleet's label; the cursor is the API server's own. One that is too old begins the list again. */
export async function pageOf(
  { api, home }: Cluster,
  path: string,
  asked: { backend: KubernetesBackendName; sandboxId?: string; cursor?: string | undefined },
  call: Call,
): Promise<{ data: { metadata?: WireMeta }[]; next: string | undefined }> {
  const query = {
    labelSelector: selectorOf(home, asked.backend, asked.sandboxId),
    limit: PAGE,
    continue: asked.cursor,
  }
  const page = await api.json<ObjectList>({ path, query }, call).catch((error: unknown) => {
    if (!isTooOld(error)) throw error
    throw new BackendError('sandbox_unreachable', `A list of Kubernetes has to be begun again: ${error}`)
  })
  if (!page.kind?.endsWith('List') || !page.items) throw new Unreadable(`GET ${path}`, JSON.stringify(page))
  return { data: page.items, next: page.metadata?.continue || undefined }
}

/** Whose it is, and what it is called, by its labels. The selector has been asked for, and is not relied upon. */
export function ownedOf(home: Home, { metadata }: { metadata?: WireMeta }): ListedInstance | undefined {
  const { name, labels = {}, annotations = {} } = metadata ?? {}
  const { [LABEL.fleet]: fleet, [LABEL.sandbox]: sandboxId, [LABEL.life]: life } = labels
  if (!name || !sandboxId || !life || fleet !== home.fleet) return undefined
  return { ref: annotations[ANNOTATION.ref] ?? refOf(home, name), sandboxId, life }
}

export async function listPods(
  cluster: Cluster,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedInstance>> {
  const asked = { backend: 'kubernetes-pod', cursor } as const
  const { data, next } = await pageOf(cluster, podsPath(cluster.home), asked, call)
  const items = data.flatMap((item): ListedInstance[] => {
    const owned = ownedOf(cluster.home, item)
    if (!owned) return []
    const { is } = stateOf(podOf(item as WirePod))
    return [is === 'ended' || is === 'evicted' ? { ...owned, isLost: true } : owned]
  })
  return { items, next }
}

export async function findOwned(
  cluster: Cluster,
  path: string,
  asked: { backend: KubernetesBackendName; sandboxId: string },
  call: Call,
): Promise<Found[]> {
  const found: Found[] = []
  for await (const item of readPages('Kubernetes', (cursor) => pageOf(cluster, path, { ...asked, cursor }, call))) {
    const owned = ownedOf(cluster.home, item)
    if (owned?.sandboxId === asked.sandboxId) found.push({ ref: owned.ref, life: owned.life })
  }
  return found
}
