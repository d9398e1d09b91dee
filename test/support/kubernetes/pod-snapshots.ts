import { isEqual, type KubeObject } from './objects.ts'
import { custom, type Resource } from './resources.ts'
import { NAME_HASH } from './sandbox-children.ts'
import { objectAt, required } from './validation.ts'

const GROUP = 'podsnapshot.gke.io'
export const SNAPSHOTS = `podsnapshots.${GROUP}`
export const TRIGGERS = `podsnapshotmanualtriggers.${GROUP}`
export const POLICIES = `podsnapshotpolicies.${GROUP}`

/** On a pod: which snapshot it begins from. */
export const SNAPSHOT_NAME = `${GROUP}/ps-name`
/** On a pod: that it begins from the last one there is. */
export const LATEST = `${GROUP}/latest`
/** On a snapshot: the name of the pod it is of. */
export const ORIGIN_POD = `${GROUP}/origin-pod`

export function snapshotResources(): Resource[] {
  const at = { group: GROUP, versions: ['v1'] }
  return [
    custom({
      ...at,
      plural: 'podsnapshotmanualtriggers',
      kind: 'PodSnapshotManualTrigger',
      rules: {
        validate: ({ spec = {} }) => (typeof spec.targetPod === 'string' ? [] : [required('spec.targetPod')]),
      },
    }),
    custom({ ...at, plural: 'podsnapshots', kind: 'PodSnapshot' }),
    custom({ ...at, plural: 'podsnapshotpolicies', kind: 'PodSnapshotPolicy' }),
    custom({ ...at, plural: 'podsnapshotstorageconfigs', kind: 'PodSnapshotStorageConfig', isNamespaced: false }),
  ]
}

/** All pods of a sandbox are one group, and nobody begins from a snapshot of another one's. */
export const groupOf = ({ metadata }: KubeObject) => metadata.labels?.[NAME_HASH]

export function isSelectedBy(policy: KubeObject, pod: KubeObject): boolean {
  const wanted = objectAt(objectAt(policy.spec?.selector).matchLabels)
  const labels = pod.metadata.labels ?? {}
  return Object.entries(wanted).every(([key, value]) => isEqual(labels[key], value))
}

/** How many of a group are kept. */
export function retentionOf(policy: KubeObject): number | undefined {
  const rules = objectAt(objectAt(policy.spec?.snapshotGroupingRules).groupByLabelValue)
  const { maxSnapshotCountPerGroup: max } = objectAt(rules.groupRetentionPolicy)
  return typeof max === 'number' ? max : undefined
}
