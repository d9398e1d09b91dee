import type { Call, Target } from '../backend.ts'
import { Moved, remove } from './containers.ts'
import { forget, forgetAll } from './images.ts'
import { type Instance, isThere } from './instance.ts'
import type { Site } from './site.ts'
import { changing, requireEndable } from './targets.ts'

/**
 * Removes its containers, and the image that it sleeps as.
 *
 * Killed half-way: something with its labels is left, and ended again.
 */
export async function endInstance(site: Site, target: Target, call: Call): Promise<void> {
  await changing(site, target.ref, call, async (instance) => {
    if (!isThere(instance)) return removeRest(site, instance, call) // somebody may have died before that
    await requireEndable(site, instance, target, call)
    // By its name: one that was woken meanwhile is called otherwise.
    if (instance.agent) await remove(site, instance.agent.fullName, call)
    await removeRest(site, instance, call)
  })
}

/** All but the agent's container. */
async function removeRest(site: Site, { ref, isAdopted, agent, sidecar }: Instance, call: Call): Promise<void> {
  if (sidecar)
    await remove(site, sidecar.Id, call).catch((error: unknown) => {
      if (!(error instanceof Moved)) throw error // it is gone
    })
  if (isAdopted) return
  await forgetAll(site, ref, call)
  // What it was made from may have lost its name since, and was kept only for this container.
  if (agent) await forget(site, agent.inspected.Image, call)
}
