import type { Draft, KubeObject, OwnerReference } from './objects.ts'
import type { PodSpec } from './pods.ts'
import { nameHash, sandboxSpec } from './sandboxes.ts'

export const POD_NAME = 'agents.x-k8s.io/pod-name'
export const NAME_HASH = 'agents.x-k8s.io/sandbox-name-hash'
const PROPAGATED_LABELS = 'agents.x-k8s.io/propagated-labels'
const PROPAGATED_ANNOTATIONS = 'agents.x-k8s.io/propagated-annotations'
/** Those that a pod has from who owns its sandbox. */
const EXTENSION_LABELS = ['agents.x-k8s.io/warm-pool-sandbox', 'agents.x-k8s.io/sandbox-template-ref-hash']

/** What stands in a template with a prefix of the system's own is left out. */
const isReserved = (key: string) => /^(extensions\.)?agents\.x-k8s\.io\//.test(key)

export function ownedBy(owner: KubeObject): OwnerReference {
  const { apiVersion, kind, metadata } = owner
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true, blockOwnerDeletion: true }
}

export function podDraft(sandbox: KubeObject): Draft {
  const { name } = sandbox.metadata
  const { podTemplate, volumeClaimTemplates = [] } = sandboxSpec(sandbox)
  const spec = structuredClone(podTemplate.spec) as PodSpec
  const claims = volumeClaimTemplates.map(({ metadata }) => ({
    name: metadata.name,
    persistentVolumeClaim: { claimName: `${metadata.name}-${name}` },
  }))
  const others = (spec.volumes ?? []).filter((volume) => !claims.some((claim) => claim.name === volume.name))
  const metadata = { name, labels: {}, annotations: {}, ownerReferences: [ownedBy(sandbox)] }
  return {
    metadata: { ...metadata, ...propagate(sandbox, { labels: {}, annotations: {} }) },
    spec: { ...spec, volumes: [...others, ...claims] },
  }
}

export function claimDraft(
  sandbox: KubeObject,
  template: { metadata: { name: string; labels?: Record<string, string> }; spec: object },
): Draft {
  const { name } = sandbox.metadata
  const labels = { ...template.metadata.labels, [NAME_HASH]: nameHash(name) }
  const metadata = { ...template.metadata, name: `${template.metadata.name}-${name}`, labels }
  return { metadata: { ...metadata, ownerReferences: [ownedBy(sandbox)] }, spec: { ...template.spec } }
}

type Marks = { labels: Record<string, string>; annotations: Record<string, string> }

/** What the template says of labels and annotations goes to the pod also while that runs, and what it said before goes from it. */
export function propagate(sandbox: KubeObject, pod: Marks): Marks {
  const { metadata = {} } = sandboxSpec(sandbox).podTemplate
  const labels = replaced(pod.labels, metadata.labels ?? {}, pod.annotations[PROPAGATED_LABELS])
  const annotations = replaced(pod.annotations, metadata.annotations ?? {}, pod.annotations[PROPAGATED_ANNOTATIONS])
  labels[NAME_HASH] = nameHash(sandbox.metadata.name)
  for (const key of EXTENSION_LABELS) {
    const value = sandbox.metadata.labels?.[key]
    if (value === undefined) delete labels[key]
    else labels[key] = value
  }
  const names = (marks: Record<string, string> = {}) =>
    Object.keys(marks)
      .filter((key) => !isReserved(key))
      .toSorted()
  annotations[PROPAGATED_LABELS] = names(metadata.labels).join(',')
  annotations[PROPAGATED_ANNOTATIONS] = names(metadata.annotations).join(',')
  return { labels, annotations }
}

function replaced(is: Record<string, string>, wanted: Record<string, string>, before = ''): Record<string, string> {
  const kept = Object.entries(is).filter(([key]) => !before.split(',').includes(key))
  const given = Object.entries(wanted).filter(([key]) => !isReserved(key))
  return Object.fromEntries([...kept, ...given])
}
