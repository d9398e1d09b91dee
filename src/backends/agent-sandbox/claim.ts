import type { Call } from '../backend.ts'
import { isAbsent, isConflict, Unreadable } from '../kubernetes/errors.ts'
import type { Labels } from '../kubernetes/labels.ts'
import type { WireMeta } from '../kubernetes/pod.ts'
import type { Site } from './site.ts'

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
  labels: Labels
  annotations: Labels
  isDeleted: boolean
  boundTo: string | undefined
  reason: string
  why: string
}

export const claimsPath = ({ cluster }: Site) =>
  `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${cluster.home.namespace}/sandboxclaims`

export async function findClaim(site: Site, name: string, call: Call): Promise<Claim | undefined> {
  const path = `${claimsPath(site)}/${name}`
  const found = await site.cluster.api.json<WireClaim>({ path }, call).catch((error: unknown) => {
    if (isAbsent(error, name)) return undefined
    throw error
  })
  if (!found) return undefined
  const { metadata = {}, status = {} } = found
  if (found.kind !== 'SandboxClaim' || !metadata.name || !metadata.uid)
    throw new Unreadable(`GET ${path}`, JSON.stringify(found).slice(0, 400))
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  return {
    name: metadata.name,
    uid: metadata.uid,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    isDeleted: metadata.deletionTimestamp !== undefined,
    boundTo: status.sandbox?.name || undefined,
    reason: ready?.reason ?? '',
    why: `its claim has no sandbox yet${ready?.reason ? `: ${ready.reason} (${ready.message ?? ''})` : ''}`,
  }
}

export async function deleteClaim(site: Site, { name, uid }: Claim, call: Call): Promise<void> {
  const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid }, propagationPolicy: 'Foreground' }
  const path = `${claimsPath(site)}/${name}`
  await site.cluster.api.json({ method: 'DELETE', path, body }, call).catch((error: unknown) => {
    if (!isAbsent(error, name) && !isConflict(error)) throw error
  })
}
