import type { Abilities, Cloud } from './cloud.ts'
import { putInstance } from './perform.ts'
import { beginPause } from './sleep.ts'

/** One that somebody has made by hand, to be taken over; awake or asleep. */
export function freeInstance(cloud: Cloud, abilities: Abilities, isAsleep: boolean): { ref: string } {
  const made = { sandboxId: 'by-hand', life: 'by-hand', fleet: 'by-hand', ttlMs: 1_800_000 }
  const instance = putInstance(cloud, abilities, made)
  if (isAsleep && abilities.pausing !== 'none') beginPause(cloud, abilities, instance)
  return { ref: instance.ref }
}
