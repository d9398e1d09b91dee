import type { Agent, AgentStatus, Sighting, Target, Wanted } from '../../src/backends/backend.ts'
import type { Reply } from './call.ts'
import type { Abilities, Cloud, Instance } from './cloud.ts'
import { beginPause, endOfTime } from './sleep.ts'

/** Longer than this the provider lets nobody live. */
export const LEASE_MS_MAX = 3_600_000

/** The same life makes one. */
export function create(cloud: Cloud, abilities: Abilities, wanted: Wanted, reply: Reply<{ ref: string }>) {
  const { engine, random, conduct } = cloud
  const { sandboxId, life, spec, checkpointRef, ttlMs } = wanted
  const made = cloud.instancesOf(sandboxId).find((instance) => instance.life === life && !instance.isEnding)
  if (made) return reply.with({ ref: made.ref })
  if (checkpointRef !== undefined && cloud.checkpoints.get(checkpointRef)?.condition !== 'ready')
    return reply.failing('checkpoint_missing', `there is no ${checkpointRef}`)
  const instance = putInstance(cloud, abilities, { sandboxId, life, fleet: cloud.fleet, ttlMs })
  instance.state = 'changing'
  engine.after(
    random.between(10, random.chance(0.1) && !conduct.isWell ? 20_000 : 2_000),
    `${instance.ref} has started`,
    () => {
      if (instance.state !== 'changing' || instance.isEnding) return
      instance.state = 'running'
      if (spec.agent) cloud.startAgent(instance, '')
    },
  )
  reply.with({ ref: instance.ref })
}

/** One that runs. */
export function putInstance(
  cloud: Cloud,
  abilities: Abilities,
  { sandboxId, life, fleet, ttlMs }: { sandboxId: string; life: string; fleet: string; ttlMs: number },
): Instance {
  const { engine } = cloud
  const instance: Instance = {
    ...{ ref: cloud.name('vm'), backend: abilities.name, fleet, sandboxId, life, state: 'running' },
    ...{ isPausing: false, isEnding: false, incarnation: 1, checkpointRef: undefined, madeAtMs: engine.nowMs },
    endsAtMs: abilities.lease === 'none' ? Number.POSITIVE_INFINITY : engine.nowMs + Math.min(ttlMs, LEASE_MS_MAX),
    ...{ agents: new Map(), pauseWaiters: [] },
  }
  cloud.instances.set(instance.ref, instance)
  if (abilities.lease !== 'none') cloud.watchLease(instance, (it) => endOfTime(cloud, abilities, it))
  return instance
}

export function sight(cloud: Cloud, abilities: Abilities, instance: Instance | undefined): Sighting {
  if (!instance) return { is: 'absent' }
  const { state, incarnation, endsAtMs, checkpointRef, isEnding } = instance
  if (isEnding) return { is: 'changing', why: 'it is ending' }
  switch (state) {
    case 'running':
      return {
        is: 'running',
        incarnation: String(incarnation),
        ...(Number.isFinite(endsAtMs) && { endsAt: new Date(endsAtMs) }),
      }
    case 'changing':
      return { is: 'changing', why: 'it takes its time' }
    case 'lost':
      return { is: 'lost', why: 'its node is gone' }
    case 'suspended': {
      const broken = isBroken(cloud, abilities, instance) ? { broken: 'what it sleeps on is gone' } : {}
      return { is: 'suspended', checkpointRef, ...broken }
    }
  }
}

/** Where instance and checkpoint are one, the instance itself shows that it cannot be woken. */
export function isBroken(cloud: Cloud, { pausing, needsCheckpoint }: Abilities, instance: Instance): boolean {
  const { state, isPausing, checkpointRef } = instance
  if (pausing !== 'one' || !needsCheckpoint || state !== 'suspended' || isPausing) return false
  return checkpointRef === undefined || cloud.checkpoints.get(checkpointRef)?.condition !== 'ready'
}

export function endInstance(cloud: Cloud, instance: Instance | undefined, target: Target, reply: Reply<void>) {
  if (!instance || instance.isEnding) return reply.with()
  const actual = instance.state === 'running' ? String(instance.incarnation) : null
  if (actual !== target.incarnation) return reply.failing('overtaken', `${instance.ref} is incarnation ${actual}`)
  instance.isEnding = true
  cloud.fall(instance, 'ended')
  cloud.ends.push({ atMs: cloud.engine.nowMs, ref: instance.ref, sandboxId: instance.sandboxId, was: instance.state })
  for (const agent of instance.agents.values()) agent.endBy('sandbox', { signal: 'SIGKILL' })
  const ms = cloud.random.chance(0.5) ? 0 : cloud.random.between(0, 4_000)
  cloud.engine.after(ms, `${instance.ref} has ended`, () => {
    if (instance.checkpointRef?.includes('@')) cloud.checkpoints.delete(instance.checkpointRef)
    cloud.remove(instance, 'ended')
  })
  reply.with()
}

export function suspend(
  cloud: Cloud,
  abilities: Abilities,
  instance: Instance | undefined,
  target: Target,
  reply: Reply<{ checkpointRef: string | undefined }>,
) {
  if (!instance || instance.isEnding) return reply.failing('sandbox_expired', `there is no ${target.ref}`)
  if (instance.state === 'lost') return reply.failing('sandbox_unreachable', `${target.ref} is lost`)
  const told = () => (cloud.random.chance(0.5) ? instance.checkpointRef : undefined)
  if (!instance.isPausing) {
    if (instance.state === 'suspended') return reply.with({ checkpointRef: told() })
    const actual = instance.state === 'running' ? String(instance.incarnation) : null
    if (actual !== target.incarnation) return reply.failing('overtaken', `${target.ref} is incarnation ${actual}`)
    beginPause(cloud, abilities, instance)
  }
  // Some say that it is done before it is.
  if (cloud.random.chance(0.15) && !abilities.isShownEarly) return reply.with({ checkpointRef: undefined })
  instance.pauseWaiters.push((failure) =>
    failure === undefined
      ? reply.with({ checkpointRef: told() })
      : reply.failing('sandbox_unreachable', `${target.ref} was not suspended: ${failure}`),
  )
}

export function agentStatus(cloud: Cloud, instance: Instance, { incarnation, key = '' }: Agent): AgentStatus {
  if (instance.state === 'lost') return { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
  if (String(instance.incarnation) !== incarnation)
    return { is: 'restarted', why: `It is incarnation ${instance.incarnation} by now.` }
  if (instance.state !== 'running') return { is: 'asleep' }
  const agent = instance.agents.get(key)
  if (!agent) return { is: 'none' }
  if (!agent.end || agent.end.atMs + agent.lagMs > cloud.engine.nowMs) return { is: 'running' }
  const { exitCode, signal, oomKilled } = agent.end
  return { is: 'terminated', exitCode, signal, oomKilled }
}

/** Asked to, and killed if it does not; told when it has ended. */
export function stopAgent(cloud: Cloud, instance: Instance, { incarnation, key = '' }: Agent, reply: Reply<void>) {
  if (String(instance.incarnation) !== incarnation) return reply.failing('overtaken', 'it runs as another incarnation')
  const agent = instance.agents.get(key)
  if (!agent || agent.end) return reply.with()
  cloud.engine.after(agent.stopMs, `agent ${key} stops`, () => {
    agent.endBy('stop', { signal: 'SIGTERM' })
    reply.with()
  })
}
