import type { Call, CheckpointCondition } from '../backend.ts'
import { isAbsent, Unreadable } from '../kubernetes/errors.ts'
import type { WireMeta } from '../kubernetes/pod.ts'
import type { Sandbox } from './resource.ts'
import type { Site } from './site.ts'

type WireClaim = { kind?: string; metadata?: WireMeta; status?: { phase?: string } }

/** Whether the volumes are there that its files are on: without one, its next pod would begin with nothing. */
export async function verifyVolumes(site: Site, { volumes }: Sandbox, call: Call): Promise<CheckpointCondition> {
  const { api, home } = site.cluster
  for (const name of volumes) {
    const path = `/api/v1/namespaces/${home.namespace}/persistentvolumeclaims/${name}`
    const found = await api.json<WireClaim>({ path }, call).catch((error: unknown) => {
      if (isAbsent(error, name)) return undefined
      throw error
    })
    if (!found) return { is: 'missing', why: `there is no volume claim ${name}` }
    if (found.kind !== 'PersistentVolumeClaim') throw new Unreadable(`GET ${path}`, JSON.stringify(found).slice(0, 400))
    if (found.metadata?.deletionTimestamp) return { is: 'missing', why: `volume claim ${name} is being deleted` }
    if (found.status?.phase === 'Lost') return { is: 'corrupt', why: `volume claim ${name} has lost its volume` }
  }
  return { is: 'ready' }
}

/** `10Gi`, or `10Gi:fast` with the name of a storage class. */
export function volumeClaim(name: string, storage: string): object {
  const [size, storageClassName] = storage.split(':')
  return {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...(storageClassName && { storageClassName }),
    },
  }
}
