import { randomBytes } from 'node:crypto'
import { BackendError, type Call, type CheckpointCondition } from '../backend.ts'
import { isAbsent } from '../kubernetes/errors.ts'
import { ANNOTATION, LABEL, type Labels } from '../kubernetes/labels.ts'
import { nameOf } from '../kubernetes/names.ts'
import { findObject } from '../kubernetes/objects.ts'
import type { Pod, WireMeta } from '../kubernetes/pod.ts'
import { pageOf } from '../kubernetes/pods.ts'
import { lookAgainMs } from './patience.ts'
import { sleepsOnSnapshot } from './sighting.ts'
import type { Site } from './site.ts'

/** How long a node may take to write down the memory of a pod, and to bring that to where it is kept. */
const TAKEN_MS_MAX = 240_000

/** On a snapshot: what has triggered it, which is removed with it. */
const TRIGGER_MARK = 'sandman.trigger'

type Kind = 'PodSnapshot' | 'PodSnapshotManualTrigger'
type WireCondition = { type: string; status: string; reason?: string; message?: string }
type WireObject = {
  kind?: string
  metadata?: WireMeta
  status?: { conditions?: WireCondition[]; snapshotCreated?: { name?: string } }
}

const pathOf = ({ cluster }: Site, kind: Kind) =>
  `/apis/podsnapshot.gke.io/v1/namespaces/${cluster.home.namespace}/${kind.toLowerCase()}s`

/** Whose pod it is, and by which pause it is to sleep. */
type Asked = { ref: string; labels: Labels; key: string }

/**
 * Has the node write down the memory of a pod, and returns the name of the snapshot once it is whole: the pod is there until
 * then, and runs on if it never is. Each call takes a snapshot of its own: one that a worker has left behind that died is older
 * than what the pod has done since.
 *
 * The trigger carries the owner's labels from the beginning, and hands them on to the snapshot as soon as that is known, so that
 * one of the two is always found.
 */
export async function takePodSnapshot(site: Site, pod: Pod, asked: Asked, call: Call): Promise<string> {
  const { cluster, served } = site
  if (!served.podSnapshots)
    throw new BackendError(
      'sandbox_unreachable',
      'This worker is to keep the memory of what it pauses, and the cluster does not serve podsnapshot.gke.io/v1: set SANDMAN_KUBERNETES_PAUSE to disk, or use another cluster.',
    )
  const name = `${nameOf(cluster.home, { life: asked.key })}-${randomBytes(2).toString('hex')}`
  const annotations = { [ANNOTATION.ref]: asked.ref }
  const body = {
    apiVersion: 'podsnapshot.gke.io/v1',
    kind: 'PodSnapshotManualTrigger',
    metadata: { name, labels: asked.labels, annotations },
    spec: { targetPod: pod.name },
  }
  await cluster.api.json({ method: 'POST', path: pathOf(site, 'PodSnapshotManualTrigger'), body }, call)
  try {
    const until = Date.now() + TAKEN_MS_MAX
    const snapshot = await whenTriggered(site, name, until, call)
    await change(
      site,
      'PodSnapshot',
      snapshot,
      {
        labels: asked.labels,
        annotations: { ...annotations, [TRIGGER_MARK]: name },
      },
      call,
    )
    const noLabels = Object.fromEntries(Object.keys(asked.labels).map((label) => [label, null]))
    await change(site, 'PodSnapshotManualTrigger', name, { labels: noLabels }, call)
    await whenWhole(site, snapshot, until, call)
    return snapshot
  } catch (error) {
    await throwAway(site, name, call)
    throw error
  }
}

async function whenTriggered(site: Site, name: string, until: number, call: Call): Promise<string> {
  for (let looks = 0; ; looks++) {
    const found = await find(site, 'PodSnapshotManualTrigger', name, call)
    const { is, why, snapshot } = becomingOf(found)
    if (is === 'done' && snapshot) return snapshot
    if (is === 'failed') throw new BackendError('sandbox_unreachable', `The memory of a pod was not written down${why}`)
    if (Date.now() > until)
      throw new BackendError('sandbox_unreachable', `The memory of a pod is still being written down${why}`)
    await site.cluster.watch.change(name, lookAgainMs(looks), call)
  }
}

async function whenWhole(site: Site, name: string, until: number, call: Call): Promise<void> {
  for (let looks = 0; ; looks++) {
    const condition = await verifyPodSnapshot(site, name, call)
    if (condition.is === 'ready') return
    if (condition.is !== 'pending')
      throw new BackendError('sandbox_unreachable', `The memory of a pod was not kept: ${condition.why}`)
    if (Date.now() > until)
      throw new BackendError(
        'sandbox_unreachable',
        `The memory of a pod is still on its way to where it is kept (${name})`,
      )
    await site.cluster.watch.change(name, lookAgainMs(looks), call)
  }
}

/** Of the snapshot itself, and not of what has made it. */
export async function verifyPodSnapshot(site: Site, name: string, call: Call): Promise<CheckpointCondition> {
  const found = await find(site, 'PodSnapshot', name, call)
  if (!found || found.metadata?.deletionTimestamp) return { is: 'missing', why: `there is no pod snapshot ${name}` }
  const ready = found.status?.conditions?.find(({ type }) => type === 'Ready')
  if (ready?.status === 'True') return { is: 'ready' }
  if (hasFailed(ready)) return { is: 'corrupt', why: `pod snapshot ${name} has failed${reasonOf(ready)}` }
  return { is: 'pending' }
}

/** It was cut off before there was a checkpoint, so it is none; and is there, to be thrown away. */
export async function verifyTrigger(site: Site, name: string, call: Call): Promise<CheckpointCondition> {
  const found = await find(site, 'PodSnapshotManualTrigger', name, call)
  if (!found) return { is: 'missing', why: `there is no trigger ${name}` }
  const { is, why } = becomingOf(found)
  return is === 'pending' ? { is } : { is: 'corrupt', why: `a pause was cut off before it slept on this${why}` }
}

function becomingOf(trigger: WireObject | undefined): {
  is: 'done' | 'failed' | 'pending'
  why: string
  snapshot?: string
} {
  if (!trigger) return { is: 'failed', why: ': its trigger is gone' }
  const snapshot = trigger.status?.snapshotCreated?.name
  const triggered = trigger.status?.conditions?.find(({ type }) => type === 'Triggered')
  const why = reasonOf(triggered)
  if (triggered?.status === 'True' && snapshot) return { is: 'done', why, snapshot }
  return { is: hasFailed(triggered) ? 'failed' : 'pending', why, ...(snapshot && { snapshot }) }
}

function hasFailed(condition: WireCondition | undefined): boolean {
  return condition?.status === 'False' && /^(Failed|Error)$/.test(condition.reason ?? '')
}

function reasonOf(condition: WireCondition | undefined): string {
  return condition?.reason ? `: ${condition.reason} (${condition.message ?? ''})` : ''
}

export async function discardPodSnapshot(site: Site, name: string, call: Call): Promise<void> {
  const found = await find(site, 'PodSnapshot', name, call)
  if (!found) return
  requireOwn(site, name, found)
  const trigger = found.metadata?.annotations?.[TRIGGER_MARK]
  if (trigger) await remove(site, 'PodSnapshotManualTrigger', trigger, call)
  await remove(site, 'PodSnapshot', name, call)
}

/**
 * Together with the snapshot that it has led to by now; unless that carries the labels itself, because then something may sleep
 * on it.
 */
export async function discardTrigger(site: Site, name: string, call: Call): Promise<void> {
  const found = await find(site, 'PodSnapshotManualTrigger', name, call)
  if (found?.metadata?.labels?.[LABEL.fleet] === undefined) return
  requireOwn(site, name, found)
  await removeTriggered(site, name, found, call)
}

async function removeTriggered(site: Site, name: string, { status }: WireObject, call: Call): Promise<void> {
  const snapshot = status?.snapshotCreated?.name
  if (snapshot) await remove(site, 'PodSnapshot', snapshot, call)
  await remove(site, 'PodSnapshotManualTrigger', name, call)
}

/** What cannot be thrown away now is found by its labels. */
async function throwAway(site: Site, name: string, call: Call): Promise<void> {
  if (call.signal.aborted) return
  const found = await find(site, 'PodSnapshotManualTrigger', name, call).catch(() => undefined)
  if (found) await removeTriggered(site, name, found, call).catch(() => {})
}

function requireOwn({ cluster: { home } }: Site, name: string, { metadata }: WireObject): void {
  if (metadata?.labels?.[LABEL.fleet] !== home.fleet)
    throw new BackendError('spec_invalid', `${name} is not of fleet ${home.fleet}`)
}

function find(site: Site, kind: Kind, name: string, call: Call): Promise<WireObject | undefined> {
  return findObject(site.cluster.api, { kind, path: pathOf(site, kind), name }, call)
}

async function change(site: Site, kind: Kind, name: string, metadata: object, call: Call): Promise<void> {
  const asked = {
    method: 'PATCH',
    path: `${pathOf(site, kind)}/${name}`,
    body: { metadata },
    as: 'merge-patch',
  } as const
  await site.cluster.api.json(asked, call)
}

async function remove(site: Site, kind: Kind, name: string, call: Call): Promise<void> {
  const path = `${pathOf(site, kind)}/${name}`
  await site.cluster.api.json({ method: 'DELETE', path }, call).catch((error: unknown) => {
    if (!isAbsent(error, name)) throw error
  })
}

/** Before the cursors of the second list. */
const TRIGGERS = 'triggers '
const TRIGGER = 'trigger:'

/** The trigger of a snapshot that a pause was cut off before it had. */
export function triggerIn(checkpointRef: string): string | undefined {
  const [, what = ''] = checkpointRef.split('@')
  return what.startsWith(TRIGGER) ? what.slice(TRIGGER.length) : undefined
}

/**
 * Snapshots, and then the triggers of those that are still to come, or never did: a trigger has lost its labels when there is a
 * snapshot that has them.
 */
export async function listPodSnapshots(
  site: Site,
  cursor: string | undefined,
  call: Call,
): Promise<{ items: { ref: string; what: string; sandboxId: string }[]; next: string | undefined }> {
  const isSecond = cursor?.startsWith(TRIGGERS) ?? false
  const from = isSecond ? cursor?.slice(TRIGGERS.length) || undefined : cursor
  const path = pathOf(site, isSecond ? 'PodSnapshotManualTrigger' : 'PodSnapshot')
  const { data, next } = await pageOf(site.cluster, path, { backend: 'agent-sandbox', cursor: from }, call)
  const items = data.flatMap(({ metadata }) => {
    const { name, labels = {}, annotations = {} } = metadata ?? {}
    const { [LABEL.sandbox]: sandboxId, [LABEL.fleet]: fleet } = labels
    const ref = annotations[ANNOTATION.ref]
    if (!name || !ref || !sandboxId || fleet !== site.cluster.home.fleet) return []
    return [{ ref, what: isSecond ? `${TRIGGER}${name}` : sleepsOnSnapshot(name), sandboxId }]
  })
  return { items, next: isSecond ? next && `${TRIGGERS}${next}` : (next ?? TRIGGERS) }
}
