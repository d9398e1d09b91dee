import type { Call, CheckpointCondition } from '../backend.ts'
import { findObject } from '../kubernetes/objects.ts'
import type { WireMeta } from '../kubernetes/pod.ts'
import { MARK, type Sandbox } from './resource.ts'
import type { Site } from './site.ts'

type WireClaim = { kind?: string; metadata?: WireMeta; status?: { phase?: string } }

/** What its files are on, as the API server has it now; undefined where there is none. */
function findVolume({ cluster }: Site, name: string, call: Call): Promise<WireClaim | undefined> {
  const path = `/api/v1/namespaces/${cluster.home.namespace}/persistentvolumeclaims`
  return findObject(cluster.api, { kind: 'PersistentVolumeClaim', path, name }, call)
}

/** Which volumes it has, to be written down once; undefined when they are not all there yet. */
export async function volumesOf(site: Site, { volumes }: Sandbox, call: Call): Promise<string | undefined> {
  const found = await Promise.all(volumes.map((name) => findVolume(site, name, call)))
  const uids = found.map((each) => each?.metadata?.uid)
  return uids.every((uid) => uid !== undefined) ? uids.join(' ') : undefined
}

/** Whether those are still there: its next pod would begin with nothing, and nobody would say so. */
export async function verifyVolumes(site: Site, sandbox: Sandbox, call: Call): Promise<CheckpointCondition> {
  const known = sandbox.annotations[MARK.volumes]?.split(' ') ?? []
  for (const [nth, name] of sandbox.volumes.entries()) {
    const found = await findVolume(site, name, call)
    if (!found) return { is: 'missing', why: `there is no volume claim ${name}` }
    if (known[nth] && found.metadata?.uid !== known[nth])
      return { is: 'missing', why: `volume claim ${name} is another one than ${known[nth]}, on which its files were` }
    if (found.metadata?.deletionTimestamp) return { is: 'missing', why: `volume claim ${name} is being deleted` }
    if (found.status?.phase === 'Lost') return { is: 'corrupt', why: `volume claim ${name} has lost its volume` }
  }
  return { is: 'ready' }
}

/** The same of what sleeps without its memory, and has nothing but these. */
export async function verifyFiles(site: Site, sandbox: Sandbox, call: Call): Promise<CheckpointCondition> {
  if (!sandbox.isFleeting) return verifyVolumes(site, sandbox, call)
  return { is: 'missing', why: `${sandbox.name} has no volume, so that all of its files end with its pod` }
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
