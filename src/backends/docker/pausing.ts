import { BackendError, type Call, type Target, type Waking } from '../backend.ts'
import { type Container, rename, unpause } from './containers.ts'
import { putAway, takeOut } from './disk.ts'
import { dump, restore } from './dump.ts'
import { freeze, thaw } from './freeze.ts'
import { dropAsleep } from './images.ts'
import { expired, type Instance } from './instance.ts'
import { lookAt, sleepingOf } from './look.ts'
import { checkpointRefOf, type SleepMode } from './names.ts'
import type { Site } from './site.ts'
import { changing, requireRunning, Unsettled } from './targets.ts'

type Awake = Instance & { agent: Container }

const WAYS: Record<
  SleepMode,
  {
    /** Returns the key of the pause that it sleeps by: another one may have been begun before. */
    suspend(site: Site, instance: Awake, key: string, call: Call): Promise<string>
    resume(site: Site, instance: Instance, key: string, call: Call): Promise<void>
  }
> = {
  freeze: { suspend: freeze, resume: (site, instance, key, call) => thaw(site, instance as Awake, key, call) },
  disk: { suspend: putAway, resume: (site, instance, _key, call) => takeOut(site, instance, call) },
  checkpoint: { suspend: dump, resume: (site, instance, key, call) => restore(site, instance as Awake, key, call) },
}

export async function suspend(site: Site, mode: SleepMode, target: Target, { key }: { key: string }, call: Call) {
  const { ref } = target
  return changing(site, ref, call, async (instance) => {
    const asleep = sleepingOf(instance)
    if (asleep) return { checkpointRef: checkpointRefOf({ ref, kind: asleep.mode, key: asleep.key }) }
    const agent = await requireRunning(site, instance, target, call)
    const slept = await WAYS[mode].suspend(site, { ...instance, agent }, key, call)
    return { checkpointRef: checkpointRefOf({ ref, kind: mode, key: slept }) }
  })
}

/** By what it was put to sleep with, whichever way this worker would do it now. */
export async function resume(site: Site, ref: string, { key }: Waking, call: Call): Promise<void> {
  await changing(site, ref, call, async (instance) => {
    const asleep = sleepingOf(instance)
    if (asleep) return WAYS[asleep.mode].resume(site, instance, key, call)
    const seen = await lookAt(site, instance, call)
    if (seen.is === 'absent') throw expired(site, ref)
    if (seen.is === 'changing') throw new Unsettled(ref, seen.why)
    if (seen.is === 'running') return settle(site, instance, call)
    throw new BackendError(
      'checkpoint_missing',
      `There is nothing that ${ref} could be woken from: ${JSON.stringify(seen)}`,
    )
  })
}

/** What a pause has left behind that was begun and not finished, or a waking. */
async function settle(site: Site, { ref, agent, sidecar }: Instance, call: Call): Promise<void> {
  if (sidecar?.State === 'paused') await unpause(site, sidecar.Id, call)
  if (agent?.name.sleep) await rename(site, agent, { ...agent.name, sleep: undefined }, call)
  await dropAsleep(site, ref, call)
}
