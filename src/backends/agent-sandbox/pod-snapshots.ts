import { BackendError, type Call, type CheckpointCondition } from '../backend.ts'
import { isAbsent, says, Unreadable } from '../kubernetes/errors.ts'
import { ANNOTATION, LABEL, type Labels } from '../kubernetes/labels.ts'
import { nameOf } from '../kubernetes/names.ts'
import type { Pod, WireMeta } from '../kubernetes/pod.ts'
import { pageOf } from '../kubernetes/pods.ts'
import type { Site } from './site.ts'

/** How long a node may take to write down the memory of a pod. */
const TAKEN_MS_MAX = 240_000
const LOOK_AGAIN_MS = 250
/** Those who ask at once do so within this. */
const STALE_MS = 15_000

/** On a snapshot: what has triggered it, which is removed with it. */
const TRIGGER = 'sandman.trigger'

type WireCondition = { type: string; status: string; reason?: string; message?: string }
type WireTrigger = {
  kind?: string
  metadata?: WireMeta
  status?: { conditions?: WireCondition[]; snapshotCreated?: { name?: string } }
}
type WireSnapshot = { kind?: string; metadata?: WireMeta; status?: { conditions?: WireCondition[] } }

const pathOf = ({ cluster }: Site, resource: 'podsnapshots' | 'podsnapshotmanualtriggers') =>
  `/apis/podsnapshot.gke.io/v1/namespaces/${cluster.home.namespace}/${resource}`

/** Whose pod it is, and by which pause it is to sleep. */
export type Asked = { ref: string; labels: Labels; key: string }

/**
 * Has the node write down the memory of a pod, and returns what that is called. The trigger has the name of the pause, so those who ask
 * at once get the same one. What was left by somebody who died before the pod was ended is thrown away: it has run on since.
 */
export async function takePodSnapshot(site: Site, pod: Pod, asked: Asked, call: Call): Promise<string> {
  const { api, home } = site.cluster
  const name = nameOf(home, { life: asked.key })
  const path = pathOf(site, 'podsnapshotmanualtriggers')
  await removeStale(site, name, call)
  const body = {
    apiVersion: 'podsnapshot.gke.io/v1',
    kind: 'PodSnapshotManualTrigger',
    metadata: { name, labels: asked.labels },
    spec: { targetPod: pod.name },
  }
  await api.json({ method: 'POST', path, body }, call).catch((error: unknown) => {
    if (!says(error, 409, 'AlreadyExists')) throw error
  })
  const snapshot = await whenTriggered(site, name, call)
  await label(site, snapshot, asked, name, call)
  return snapshot
}

async function removeStale(site: Site, name: string, call: Call): Promise<void> {
  const path = `${pathOf(site, 'podsnapshotmanualtriggers')}/${name}`
  const found = await site.cluster.api.json<WireTrigger>({ path }, call).catch((error: unknown) => {
    if (isAbsent(error, name)) return undefined
    throw error
  })
  const { metadata, status } = found ?? {}
  const snapshot = status?.snapshotCreated?.name
  if (!snapshot || Date.now() - Date.parse(metadata?.creationTimestamp ?? '') < STALE_MS) return
  await remove(site, 'podsnapshots', snapshot, call)
  await remove(site, 'podsnapshotmanualtriggers', name, call)
}

async function whenTriggered(site: Site, name: string, call: Call): Promise<string> {
  const { api, watch } = site.cluster
  const path = `${pathOf(site, 'podsnapshotmanualtriggers')}/${name}`
  for (const until = Date.now() + TAKEN_MS_MAX; ; await watch.change(name, LOOK_AGAIN_MS, call)) {
    const { kind, status = {} } = await api.json<WireTrigger>({ path }, call)
    if (kind !== 'PodSnapshotManualTrigger') throw new Unreadable(`GET ${path}`, JSON.stringify({ kind, status }))
    const triggered = status.conditions?.find(({ type }) => type === 'Triggered')
    const created = status.snapshotCreated?.name
    if (triggered?.status === 'True' && created) return created
    const why = triggered?.reason ? `: ${triggered.reason} (${triggered.message ?? ''})` : ''
    if (triggered?.status === 'False' && /^(Failed|Error)$/.test(triggered.reason ?? '')) {
      // Whoever tries again is to begin again.
      await remove(site, 'podsnapshotmanualtriggers', name, call)
      throw new BackendError('sandbox_unreachable', `The memory of a pod was not written down${why}`)
    }
    if (Date.now() > until)
      throw new BackendError('sandbox_unreachable', `The memory of a pod is still being written down${why}`)
  }
}

/** So that it is found by its owner, also when whoever asked for it has died. */
async function label(site: Site, name: string, { ref, labels }: Asked, trigger: string, call: Call): Promise<void> {
  const path = `${pathOf(site, 'podsnapshots')}/${name}`
  const metadata = { labels, annotations: { [ANNOTATION.ref]: ref, [TRIGGER]: trigger } }
  await site.cluster.api.json({ method: 'PATCH', path, body: { metadata }, as: 'merge-patch' }, call)
}

/** Of the snapshot itself, and not of what has made it. */
export async function verifyPodSnapshot(site: Site, name: string, call: Call): Promise<CheckpointCondition> {
  const found = await findPodSnapshot(site, name, call)
  if (!found || found.metadata?.deletionTimestamp) return { is: 'missing', why: `there is no pod snapshot ${name}` }
  const ready = found.status?.conditions?.find(({ type }) => type === 'Ready')
  if (ready?.status === 'True') return { is: 'ready' }
  if (ready?.status === 'False' && /^(Failed|Error)$/.test(ready.reason ?? ''))
    return { is: 'corrupt', why: `pod snapshot ${name} has failed: ${ready.reason} (${ready.message ?? ''})` }
  return { is: 'pending' }
}

async function findPodSnapshot(site: Site, name: string, call: Call): Promise<WireSnapshot | undefined> {
  const path = `${pathOf(site, 'podsnapshots')}/${name}`
  const found = await site.cluster.api.json<WireSnapshot>({ path }, call).catch((error: unknown) => {
    if (isAbsent(error, name)) return undefined
    throw error
  })
  if (found && found.kind !== 'PodSnapshot') throw new Unreadable(`GET ${path}`, JSON.stringify(found).slice(0, 400))
  return found
}

export async function discardPodSnapshot(site: Site, name: string, call: Call): Promise<void> {
  const found = await findPodSnapshot(site, name, call)
  const fleet = found?.metadata?.labels?.[LABEL.fleet]
  if (found && fleet !== site.cluster.home.fleet)
    throw new BackendError('spec_invalid', `Pod snapshot ${name} is not of fleet ${site.cluster.home.fleet}`)
  const trigger = found?.metadata?.annotations?.[TRIGGER]
  if (trigger) await remove(site, 'podsnapshotmanualtriggers', trigger, call)
  await remove(site, 'podsnapshots', name, call)
}

async function remove(
  site: Site,
  resource: 'podsnapshots' | 'podsnapshotmanualtriggers',
  name: string,
  call: Call,
): Promise<void> {
  const path = `${pathOf(site, resource)}/${name}`
  await site.cluster.api.json({ method: 'DELETE', path }, call).catch((error: unknown) => {
    if (!isAbsent(error, name)) throw error
  })
}

export async function listPodSnapshots(
  site: Site,
  cursor: string | undefined,
  call: Call,
): Promise<{ items: { name: string; ref: string; sandboxId: string }[]; next: string | undefined }> {
  const asked = { backend: 'agent-sandbox', cursor } as const
  const { items, next } = await pageOf(site.cluster, pathOf(site, 'podsnapshots'), asked, call)
  const listed = items.flatMap(({ metadata }) => {
    const { name, labels = {}, annotations = {} } = metadata ?? {}
    const { [LABEL.sandbox]: sandboxId, [LABEL.fleet]: fleet } = labels
    const ref = annotations[ANNOTATION.ref]
    return name && ref && sandboxId && fleet === site.cluster.home.fleet ? [{ name, ref, sandboxId }] : []
  })
  return { items: listed, next }
}
