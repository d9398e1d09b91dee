import type { Call, Owner } from '../backend.ts'
import { ANNOTATION, labelsOf } from '../kubernetes/labels.ts'
import { nameIn } from '../kubernetes/names.ts'
import { changeClaim, isClaimName } from './claim.ts'
import { requireInstance } from './instance.ts'
import { despiteOthers } from './patience.ts'
import { changeSandbox } from './resource.ts'
import type { Site } from './site.ts'

/** Labels what lists are made of: the claim, where it was taken from a pool, and else the resource. */
export async function adopt(site: Site, ref: string, owner: Owner, call: Call): Promise<void> {
  const { home } = site.cluster
  const metadata = { labels: labelsOf(home, owner, 'agent-sandbox'), annotations: { [ANNOTATION.ref]: ref } }
  await despiteOthers(ref, async () => {
    const { sandbox, claim } = await requireInstance(site, ref, call)
    return isClaimName(nameIn(home, ref))
      ? claim !== undefined && (await changeClaim(site, claim, { metadata }, call))
      : sandbox !== undefined && (await changeSandbox(site, sandbox, { metadata }, call)) !== undefined
  })
}
