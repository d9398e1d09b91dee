import type { Call } from '../backend.ts'
import { LABEL } from '../kubernetes/labels.ts'
import { claimRestoring } from './claim.ts'
import { type Instance, rootOf } from './instance.ts'
import { changeSandbox, MARK, type Sandbox, SNAPSHOT_NAME } from './resource.ts'
import { isReady, labelsIn } from './sighting.ts'
import type { Site } from './site.ts'
import { volumesOf } from './volumes.ts'

/**
 * Writes down what is known of one that is awake, unless that was done: which volumes it has, and that it has been restored.
 * Whoever woke it may have died before that; and without it the next pod would go back to the snapshot, or an empty volume would
 * be taken for its own. False when somebody has changed it meanwhile.
 */
export async function settle(site: Site, instance: Instance, call: Call): Promise<boolean> {
  const { sandbox, pod, claim } = instance
  if (!sandbox || !pod || labelsIn(instance)[LABEL.fleet] !== site.cluster.home.fleet) return true
  const marks: Record<string, string | null> = {}
  if (sandbox.annotations[MARK.sleepsOn] !== undefined) marks[MARK.sleepsOn] = null // somebody else has woken it
  if (sandbox.annotations[MARK.volumes] === undefined && sandbox.volumes.length > 0) {
    const volumes = await volumesOf(site, sandbox, call)
    if (volumes !== undefined) marks[MARK.volumes] = volumes
  }
  const isRestored = sandbox.annotations[MARK.restores] !== undefined && isReady(sandbox, pod)
  if (isRestored) {
    // A pod that comes after this one, because its node was lost, is not to go back to what was then.
    if (claim && !(await claimRestoring(site, claim, undefined, call))) return false
    marks[MARK.restores] = null
    marks[MARK.root] = `${pod.uid} ${restoredRootOf(sandbox) ?? rootOf(sandbox, pod)}`
  }
  if (Object.keys(marks).length === 0) return true
  const change = { metadata: { annotations: marks }, ...(isRestored && !claim && { spec: restoring(undefined) }) }
  return (await changeSandbox(site, sandbox, change, call)) !== undefined
}

/** The name under which agents were kept in the pod that was written down. */
function restoredRootOf({ annotations }: Sandbox): string | undefined {
  return annotations[MARK.root]?.split(' ')[1]
}

/** What a pod is to begin as; or that it is to begin as it is. */
export function restoring(snapshot: string | undefined): object {
  return { podTemplate: { metadata: { annotations: { [SNAPSHOT_NAME]: snapshot ?? null } } } }
}
