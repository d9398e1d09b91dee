import { BackendError, type Call } from '../backend.ts'
import type { Api } from '../kubernetes/api.ts'
import { Refusal, Unreadable } from '../kubernetes/errors.ts'

/** What the cluster serves of what this backend is made of. */
export type Served = { dialect: Dialect; podSnapshots: boolean }

/** The two versions of the resource say the same thing in two ways. */
export type Dialect = {
  version: 'v1beta1' | 'v1alpha1'
  isAsleep(spec: { operatingMode?: string | undefined; replicas?: number | undefined }): boolean
  spec(is: 'awake' | 'asleep'): object
}

const GROUP = 'agents.x-k8s.io'
const SNAPSHOTS = { group: 'podsnapshot.gke.io', version: 'v1' }

/** The newer one first: where both are served, they are the same objects. */
const DIALECTS: readonly Dialect[] = [
  {
    version: 'v1beta1',
    isAsleep: ({ operatingMode }) => operatingMode === 'Suspended',
    spec: (is) => ({ operatingMode: is === 'asleep' ? 'Suspended' : 'Running' }),
  },
  {
    version: 'v1alpha1',
    isAsleep: ({ replicas }) => replicas === 0,
    spec: (is) => ({ replicas: is === 'asleep' ? 0 : 1 }),
  },
]

/** Asks the cluster. That it does not serve any of it is a mistake in how it was set up, and says nothing of any sandbox. */
export async function discover(api: Api, call: Call): Promise<Served> {
  const [versions, ofSnapshots] = await Promise.all([
    servedVersions(api, GROUP, call),
    servedVersions(api, SNAPSHOTS.group, call),
  ])
  const dialect = DIALECTS.find(({ version }) => versions.includes(version))
  if (dialect) return { dialect, podSnapshots: ofSnapshots.includes(SNAPSHOTS.version) }
  const wanted = DIALECTS.map(({ version }) => version).join(' or ')
  throw new BackendError(
    'sandbox_unreachable',
    `The cluster at ${api.server} does not serve ${GROUP} as ${wanted}${versions.length > 0 ? `, but as ${versions.join(', ')}` : ''}: install agent-sandbox there, or use another version of it.`,
  )
}

async function servedVersions(api: Api, group: string, call: Call): Promise<string[]> {
  const path = `/apis/${group}`
  const found = await api
    .json<{ kind?: string; versions?: { version: string }[] }>({ path }, call)
    .catch((error: unknown) => {
      if (error instanceof Refusal && error.status === 404) return undefined
      throw error
    })
  if (!found) return []
  if (found.kind !== 'APIGroup' || !found.versions) throw new Unreadable(`GET ${path}`, JSON.stringify(found))
  return found.versions.map(({ version }) => version)
}

/** A 404 of the path and not of an object: the version that was served is not served any more. */
export function isUnserved(error: unknown): boolean {
  return error instanceof Refusal && error.status === 404 && error.own === undefined
}
