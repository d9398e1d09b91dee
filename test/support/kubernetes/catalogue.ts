import { extensionResources } from './extensions.ts'
import { type KubeObject, rfc3339 } from './objects.ts'
import { snapshotResources } from './pod-snapshots.ts'
import { podsResource } from './pods.ts'
import { builtIn, type Resource } from './resources.ts'
import { sandboxesResource } from './sandboxes.ts'

export type Served = {
  /** Which versions of the Sandbox resource there are, if any. */
  sandboxes: readonly ('v1beta1' | 'v1alpha1')[]
  extensions: boolean
  podSnapshots: boolean
}

/** Every kind of object that this server has. */
export function catalogue(minor: number, served: Served): Resource[] {
  return [
    builtIn({
      plural: 'namespaces',
      kind: 'Namespace',
      isNamespaced: false,
      rules: {
        prepare: (namespace) => {
          namespace.status = { phase: 'Active' }
        },
      },
    }),
    podsResource(minor),
    builtIn({
      plural: 'persistentvolumeclaims',
      kind: 'PersistentVolumeClaim',
      showsDeleted: true,
      rules: { prepare: prepareClaim },
    }),
    builtIn({ plural: 'services', kind: 'Service', showsDeleted: true }),
    builtIn({ plural: 'configmaps', kind: 'ConfigMap', hasStatus: false }),
    builtIn({ plural: 'secrets', kind: 'Secret', hasStatus: false }),
    ...(served.sandboxes.length > 0 ? [sandboxesResource(served.sandboxes)] : []),
    ...(served.extensions ? extensionResources() : []),
    ...(served.podSnapshots ? snapshotResources() : []),
  ]
}

/** There is always room for one more. */
function prepareClaim(claim: KubeObject): void {
  claim.metadata.finalizers = [...(claim.metadata.finalizers ?? []), 'kubernetes.io/pvc-protection']
  const { accessModes, resources } = claim.spec ?? {}
  claim.spec = {
    volumeMode: 'Filesystem',
    storageClassName: 'standard',
    ...claim.spec,
    volumeName: `pvc-${claim.metadata.uid}`,
  }
  const capacity = (resources as { requests?: unknown } | undefined)?.requests
  claim.status = { phase: 'Bound', accessModes, capacity }
}

/** What is there before anybody has made anything. */
export function namespaceObject(name: string, nowMs: number): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      uid: crypto.randomUUID(),
      resourceVersion: '',
      creationTimestamp: rfc3339(nowMs),
      labels: { 'kubernetes.io/metadata.name': name },
    },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  }
}
