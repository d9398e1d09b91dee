import type { Abilities, Checkpoint, Cloud, Instance } from './cloud.ts'

/** What resuming sets the time-to-live to, whatever was asked for: silently, as some do. */
const TTL_AFTER_RESUME_MS = 300_000

/** Where instance and checkpoint are one, the name says which run was put to sleep. */
function pauseRef({ ref, incarnation }: Pick<Instance, 'ref' | 'incarnation'>): string {
  return `${ref}@${incarnation}`
}

/** Begins to put an instance to sleep. How that ends is told to all who wait for it. */
export function beginPause(cloud: Cloud, abilities: Abilities, instance: Instance) {
  const { engine, random, conduct } = cloud
  instance.state = abilities.isShownEarly ? 'suspended' : 'changing'
  cloud.fall(instance, 'asleep')
  instance.checkpointRef = undefined
  instance.isPausing = true
  for (const agent of instance.agents.values()) agent.sleep()
  const msMax = random.chance(0.1) && !conduct.isWell ? 30_000 : 4_000
  engine.after(random.between(50, msMax), `the pause of ${instance.ref} ends`, () => {
    if (cloud.instances.get(instance.ref) !== instance || !instance.isPausing) return
    endPause(cloud, abilities, instance)
  })
}

function endPause(cloud: Cloud, abilities: Abilities, instance: Instance) {
  const { conduct, random } = cloud
  if (conduct.happens('pause_fails')) {
    cloud.note('a pause failed', instance)
    if (random.chance(0.5)) return cloud.lose(instance)
    instance.state = 'running'
    for (const agent of instance.agents.values()) agent.wake()
    return cloud.endPause(instance, 'it runs on')
  }
  instance.state = 'suspended'
  if (abilities.preserves === 'disk') {
    for (const agent of instance.agents.values()) agent.endBy('sandbox', { signal: 'SIGKILL' })
  }
  if (conduct.happens('pause_keeps_nothing')) {
    cloud.note('a pause kept nothing', instance)
    if (abilities.pausing === 'one') return cloud.lose(instance)
  } else {
    const ref = abilities.pausing === 'one' ? pauseRef(instance) : cloud.name('ckpt')
    const pendingMs = abilities.pausing === 'one' || random.chance(0.6) ? 0 : random.between(0, 15_000)
    cloud.keep(instance, 'pause', ref, pendingMs)
    instance.checkpointRef = ref
  }
  cloud.endPause(instance, undefined)
}

/** Wakes it as a new incarnation, or says why that cannot be. */
export function wake(cloud: Cloud, abilities: Abilities, instance: Instance): string | undefined {
  const kept = instance.checkpointRef === undefined ? undefined : cloud.checkpoints.get(instance.checkpointRef)
  const reason = abilities.needsCheckpoint ? whyNot(kept) : undefined
  if (reason !== undefined) return reason
  if (abilities.pausing === 'one' && kept) cloud.checkpoints.delete(kept.ref)
  instance.state = 'changing'
  instance.incarnation++
  cloud.engine.after(cloud.random.between(10, 3_000), `${instance.ref} has woken`, () => {
    if (instance.state !== 'changing' || instance.isEnding) return
    instance.state = 'running'
    instance.checkpointRef = undefined
    if (abilities.lease !== 'none') {
      instance.endsAtMs = cloud.engine.nowMs + TTL_AFTER_RESUME_MS
      cloud.watchLease(instance, (it) => endOfTime(cloud, abilities, it))
    }
    for (const agent of instance.agents.values()) agent.wake()
  })
  return undefined
}

/** What a provider does by itself when the time of an instance is up. */
export function endOfTime(cloud: Cloud, abilities: Abilities, instance: Instance) {
  cloud.note('its time was up', instance)
  if (abilities.lease === 'ends') return cloud.remove(instance, 'its time was up')
  beginPause(cloud, abilities, instance)
}

function whyNot(kept: Checkpoint | undefined): string | undefined {
  if (!kept) return 'checkpoint_missing'
  if (kept.condition === 'corrupt') return 'checkpoint_corrupt'
  return kept.condition === 'pending' ? 'sandbox_unreachable' : undefined
}
