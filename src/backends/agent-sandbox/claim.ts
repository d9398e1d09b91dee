import type { Call } from '../backend.ts'
import { isAbsent, isConflict, Unreadable } from '../kubernetes/errors.ts'
import type { Labels } from '../kubernetes/labels.ts'
import { type Home, nameOf } from '../kubernetes/names.ts'
import { changeObject, findObject } from '../kubernetes/objects.ts'
import type { WireMeta } from '../kubernetes/pod.ts'
import type { AskedAgent } from '../shell/start.ts'
import { SNAPSHOT_NAME } from './resource.ts'
import type { Site } from './site.ts'

export const CLAIM_MARK = {
  /** What is started in what it gets, then and whenever that wakes. A pod of a pool runs before it is anybody's. */
  agent: 'sandman.agent',
  /** The Sandbox that it got. If that is deleted, its controller gives it another one, with nothing of it. */
  got: 'sandman.got',
} as const

type WireClaim = {
  kind?: string
  metadata?: WireMeta
  status?: {
    sandbox?: { name?: string }
    conditions?: { type: string; status: string; reason?: string; message?: string }[]
  }
}

/** A sandbox that was taken from a pool. */
export type Claim = {
  name: string
  uid: string
  version: string
  labels: Labels
  annotations: Labels
  isDeleted: boolean
  boundTo: string | undefined
  /** The uid of what it got at first. */
  got: string | undefined
  agent: AskedAgent | undefined
  reason: string
  why: string
}

/** What is claimed is known by its name, also by a worker that has no pool: otherwise that would not find it. */
const SUFFIX = '-claim'

export const claimNameOf = (home: Home, owner: { life: string }) => `${nameOf(home, owner)}${SUFFIX}`
export const isClaimName = (name: string) => name.startsWith('sandman-') && name.endsWith(SUFFIX)

export const claimsPath = ({ cluster }: Site) =>
  `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${cluster.home.namespace}/sandboxclaims`

export async function findClaim(site: Site, name: string, call: Call): Promise<Claim | undefined> {
  const path = claimsPath(site)
  const found = await findObject<WireClaim>(site.cluster.api, { kind: 'SandboxClaim', path, name }, call)
  if (!found) return undefined
  const { metadata = {}, status = {} } = found
  const { uid, resourceVersion, labels = {}, annotations = {} } = metadata
  if (!uid || !resourceVersion) throw new Unreadable(`GET ${path}/${name}`, JSON.stringify(found))
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  return {
    name,
    uid,
    version: resourceVersion,
    labels,
    annotations,
    isDeleted: metadata.deletionTimestamp !== undefined,
    boundTo: status.sandbox?.name || undefined,
    got: annotations[CLAIM_MARK.got],
    agent: (JSON.parse(annotations[CLAIM_MARK.agent] ?? 'null') as AskedAgent | null) ?? undefined,
    reason: ready?.reason ?? '',
    why: `its claim has no sandbox yet${ready?.reason ? `: ${ready.reason} (${ready.message ?? ''})` : ''}`,
  }
}

/** Changes it as it was seen; false when it has been changed by somebody else since. */
export async function changeClaim(
  site: Site,
  claim: Claim,
  change: { metadata?: object; spec?: object },
  call: Call,
): Promise<boolean> {
  return (await changeObject(site.cluster.api, claimsPath(site), claim, change, call)) !== undefined
}

/**
 * Said on the claim, and not on the Sandbox that it got: its controller copies what a claim says of its pods into that Sandbox's
 * template, again and again.
 */
export function claimRestoring(site: Site, claim: Claim, snapshot: string | undefined, call: Call): Promise<boolean> {
  const annotations = { [SNAPSHOT_NAME]: snapshot ?? null }
  return changeClaim(site, claim, { spec: { additionalPodMetadata: { annotations } } }, call)
}

export async function deleteClaim(site: Site, { name, uid }: Claim, call: Call): Promise<void> {
  const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid }, propagationPolicy: 'Foreground' }
  const path = `${claimsPath(site)}/${name}`
  await site.cluster.api.json({ method: 'DELETE', path, body }, call).catch((error: unknown) => {
    if (!isAbsent(error, name) && !isConflict(error)) throw error
  })
}
