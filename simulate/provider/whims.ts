import type { FaultName } from '../faults.ts'
import type { Abilities, Cloud, Instance } from './cloud.ts'
import { beginPause } from './sleep.ts'

/** So often a provider may think of something. */
const EVERY_MS = 6_000

/** What a provider does by itself, while not everything is well. */
export function haveWhims(cloud: Cloud, abilitiesOf: (backend: string) => Abilities): void {
  const { engine, conduct } = cloud
  engine.after(EVERY_MS, 'the providers do as they like', () => {
    if (conduct.isWell) return
    for (const whim of Object.keys(WHIMS) as (keyof typeof WHIMS)[]) {
      if (!conduct.happens(whim)) continue
      if (!WHIMS[whim](cloud, abilitiesOf)) conduct.faults.uncount(whim)
    }
    haveWhims(cloud, abilitiesOf)
  })
}

type Whim = (cloud: Cloud, abilitiesOf: (backend: string) => Abilities) => boolean

const WHIMS = {
  agent_killed(cloud) {
    const found = one(cloud, ({ state, agents }) => state === 'running' && [...agents.values()].some(({ end }) => !end))
    if (!found) return false
    const agent = cloud.random.pick([...found.agents.values()].filter(({ end }) => !end))
    const oomKilled = cloud.random.chance(0.6)
    cloud.note(oomKilled ? 'an agent used too much memory' : 'an agent was killed', found)
    agent.endBy('mishap', oomKilled ? { exitCode: 137, oomKilled } : { signal: 'SIGKILL' })
    return true
  },
  instance_vanishes(cloud) {
    const found = one(cloud, ({ state }) => state === 'running' || state === 'suspended')
    if (!found) return false
    cloud.note('an instance vanished', found)
    cloud.remove(found, 'vanished')
    return true
  },
  instance_lost(cloud) {
    const found = one(cloud, ({ state }) => state === 'running' || state === 'suspended')
    if (!found) return false
    cloud.note('an instance was lost', found)
    cloud.lose(found)
    return true
  },
  instance_restarts(cloud) {
    const found = one(cloud, ({ state, isPausing }) => state === 'running' && !isPausing)
    if (!found) return false
    cloud.note('an instance was restarted', found)
    cloud.fall(found, 'restarted')
    const hadOwn = found.agents.has('')
    for (const agent of found.agents.values()) agent.endBy('sandbox', { signal: 'SIGKILL' })
    found.agents.clear()
    found.incarnation++
    if (hadOwn) cloud.startAgent(found, '')
    return true
  },
  instance_falls_asleep(cloud, abilitiesOf) {
    const found = one(cloud, ({ state, backend }) => state === 'running' && abilitiesOf(backend).pausing !== 'none')
    if (!found) return false
    cloud.note('an instance was put to sleep', found)
    beginPause(cloud, abilitiesOf(found.backend), found)
    return true
  },
  checkpoint_forgotten(cloud) {
    const kept = [...cloud.checkpoints.values()].filter(({ fleet }) => fleet === cloud.fleet)
    if (kept.length === 0) return false
    const checkpoint = cloud.random.pick(kept)
    cloud.note('a checkpoint was forgotten', checkpoint)
    cloud.checkpoints.delete(checkpoint.ref)
    return true
  },
  checkpoint_rots(cloud) {
    const kept = [...cloud.checkpoints.values()].filter(
      ({ fleet, condition }) => fleet === cloud.fleet && condition === 'ready',
    )
    if (kept.length === 0) return false
    const checkpoint = cloud.random.pick(kept)
    cloud.note('a checkpoint is not whole any more', checkpoint)
    checkpoint.condition = 'corrupt'
    return true
  },
  outage(cloud) {
    const backends = [...new Set([...cloud.instances.values()].map(({ backend }) => backend))]
    if (backends.length === 0) return false
    const untilMs = cloud.engine.nowMs + cloud.random.between(5_000, 90_000)
    cloud.outageUntilMs.set(cloud.random.pick(backends), untilMs)
    return true
  },
} satisfies Partial<Record<FaultName, Whim>>

function one(cloud: Cloud, is: (instance: Instance) => boolean): Instance | undefined {
  const some = [...cloud.instances.values()].filter((instance) => instance.fleet === cloud.fleet && is(instance))
  return some.length === 0 ? undefined : cloud.random.pick(some)
}
