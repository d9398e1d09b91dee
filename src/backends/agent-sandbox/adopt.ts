import { BackendError, type Call, type Owner } from '../backend.ts'
import { ANNOTATION, labelsOf } from '../kubernetes/labels.ts'
import { nameIn } from '../kubernetes/names.ts'
import { changeClaim, isClaimName } from './claim.ts'
import { requireInstance } from './instance.ts'
import { CHANGES_MAX } from './patience.ts'
import { changeSandbox } from './resource.ts'
import type { Site } from './site.ts'

/** Labels what lists are made of: the claim, where it was taken from a pool, and else the resource. */
export async function adopt(site: Site, ref: string, owner: Owner, call: Call): Promise<void> {
  const { home } = site.cluster
  const metadata = { labels: labelsOf(home, owner, 'agent-sandbox'), annotations: { [ANNOTATION.ref]: ref } }
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    const { sandbox, claim } = await requireInstance(site, ref, call)
    const isDone = isClaimName(nameIn(home, ref))
      ? claim && (await changeClaim(site, claim, { metadata }, call))
      : sandbox && (await changeSandbox(site, sandbox, { metadata }, call))
    if (isDone) return
  }
  throw new BackendError('sandbox_unreachable', `${ref} is changed by others again and again`)
}
