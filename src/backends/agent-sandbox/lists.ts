import type { Call, Found, ListedInstance, Listing } from '../backend.ts'
import { findOwned, ownedOf, pageOf } from '../kubernetes/pods.ts'
import { claimsPath } from './claim.ts'
import { sandboxesPath } from './resource.ts'
import type { Site } from './site.ts'

const BACKEND = 'agent-sandbox'
/** Before the cursors of the second list. */
const CLAIMS = 'claims '

/** Those that were made, and then those that were claimed: what a claim gets has the pool's labels, and not ours. */
export async function listInstances(
  site: Site,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedInstance>> {
  const isSecond = cursor?.startsWith(CLAIMS) ?? false
  const path = isSecond ? claimsPath(site) : sandboxesPath(site)
  const from = isSecond ? cursor?.slice(CLAIMS.length) || undefined : cursor
  const page = await pageOf(site.cluster, path, { backend: BACKEND, cursor: from }, call)
  const items = page.data.flatMap((item) => ownedOf(site.cluster.home, item) ?? [])
  if (isSecond) return { items, next: page.next && `${CLAIMS}${page.next}` }
  return { items, next: page.next ?? (site.cluster.options.pool ? CLAIMS : undefined) }
}

export async function findInstances(site: Site, sandboxId: string, call: Call): Promise<Found[]> {
  const paths = [sandboxesPath(site), ...(site.cluster.options.pool ? [claimsPath(site)] : [])]
  const found = await Promise.all(
    paths.map((path) => findOwned(site.cluster, path, { backend: BACKEND, sandboxId }, call)),
  )
  return found.flat()
}
