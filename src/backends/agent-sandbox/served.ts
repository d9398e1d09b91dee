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

type GroupList = { kind?: string; groups?: { name: string; versions: { version: string }[] }[] }

/**
 * Asks the cluster for all that it serves, and not for the groups that are meant: of one that it does not serve it would say the same
 * as a gateway says of everything. That it serves none of it is a mistake in how it was set up, and says nothing of any sandbox.
 */
export async function discover(api: Api, call: Call): Promise<Served> {
  const path = '/apis'
  const found = await api.json<GroupList>({ path }, call)
  if (found.kind !== 'APIGroupList' || !found.groups) throw new Unreadable(`GET ${path}`, JSON.stringify(found))
  const { groups } = found
  const versionsOf = (group: string) =>
    groups.find(({ name }) => name === group)?.versions.map(({ version }) => version) ?? []
  const versions = versionsOf(GROUP)
  const dialect = DIALECTS.find(({ version }) => versions.includes(version))
  if (dialect) return { dialect, podSnapshots: versionsOf(SNAPSHOTS.group).includes(SNAPSHOTS.version) }
  const wanted = DIALECTS.map(({ version }) => version).join(' or ')
  throw new BackendError(
    'sandbox_unreachable',
    `The cluster at ${api.server} does not serve ${GROUP} as ${wanted}${versions.length > 0 ? `, but as ${versions.join(', ')}` : ''}: install agent-sandbox there, or use another version of it.`,
  )
}

/** A 404 of the path and not of an object: what was asked for is not served, or not any more. */
export function isUnserved(error: unknown): error is Refusal {
  return error instanceof Refusal && error.status === 404 && error.own === undefined
}

export function unserved(error: Refusal): BackendError {
  return new BackendError(
    'sandbox_unreachable',
    `The cluster does not serve what was asked of it, so nobody can say how anything there is: ${error.message}. Is agent-sandbox installed, in a version that this worker knows?`,
    { cause: error },
  )
}
