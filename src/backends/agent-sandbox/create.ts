import { BackendError, type Call, type Wanted } from '../backend.ts'
import { ANNOTATION, labelsOf } from '../kubernetes/labels.ts'
import { nameOf, refOf } from '../kubernetes/names.ts'
import { makeOnce } from '../kubernetes/objects.ts'
import { podSpecOf, WORKSPACE_VOLUME } from '../kubernetes/recipe.ts'
import { whenBegun } from '../kubernetes/start.ts'
import { hasSidecars } from '../kubernetes/version.ts'
import { createClaim } from './create-claim.ts'
import { endWhile } from './end.ts'
import { findInstance, type Instance } from './instance.ts'
import { MARK, sandboxesPath } from './resource.ts'
import type { Site } from './site.ts'
import { volumeClaim } from './volumes.ts'

const STORAGE = '1Gi'

/**
 * Makes one, and waits until it has begun.
 *
 * Killed half-way: there is one or there is none, and whoever asks again finds that out.
 */
export async function createSandbox(site: Site, wanted: Wanted, call: Call): Promise<{ ref: string }> {
  const { api, home, options } = site.cluster
  const { spec, checkpointRef } = wanted
  if (options.pool && spec.template === undefined) return createClaim(site, wanted, options.pool, call)
  if (checkpointRef !== undefined)
    throw new BackendError('spec_invalid', `${checkpointRef} is a sandbox that sleeps, and no other can begin as that`)
  const name = nameOf(home, wanted)
  const ref = refOf(home, name)
  const labels = labelsOf(home, wanted, 'agent-sandbox')
  const annotations = { [ANNOTATION.agent]: spec.agent ? 'own' : 'none' }
  const needs = { hasSidecars: spec.agent?.sidecar !== undefined && (await hasSidecars(api, call)) }
  const body = {
    apiVersion: `agents.x-k8s.io/${site.served.dialect.version}`,
    kind: 'Sandbox',
    metadata: { name, labels },
    spec: {
      ...site.served.dialect.spec('awake'),
      podTemplate: { metadata: { labels, annotations }, spec: podSpecOf(wanted, options, needs) },
      volumeClaimTemplates: [volumeClaim(WORKSPACE_VOLUME, options.storage ?? STORAGE)],
    },
  }
  const find = async () => (await findInstance(site, ref, call))?.sandbox
  await makeOnce(api, { path: sandboxesPath(site), body }, { ref, life: wanted.life, find }, call)
  await whenBegun(site.cluster, ref, call, {
    find: async () => (await findInstance(site, ref, call))?.pod,
    remove: () => endWhile(site, ref, requireUnused, call),
  })
  return { ref }
}

/** Who was seen awake has files. That its next pod does not begin is no reason to delete them. */
function requireUnused({ ref, sandbox }: Instance): void {
  if (sandbox?.annotations[MARK.volumes] === undefined) return
  throw new BackendError('sandbox_unreachable', `${ref} has run before, and its pod does not begin again`)
}
