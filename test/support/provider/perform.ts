import { randomUUID } from 'node:crypto'
import { FakeAgent } from './agent.ts'
import { type Body, type Method, notFound, type Reply } from './calls.ts'
import { keep, resume, verify } from './checkpoints.ts'
import type { Cloud, FakeInstance } from './cloud.ts'

type Creation = {
  fleet: string
  sandboxId: string
  life: string
  ttlMs: number
  spec?: { agent?: { command: string[] } }
}

/** Does what a call asks for, and says what a provider says. */
export function perform(cloud: Cloud, method: Method, body: Body): Reply {
  const ref = String(body.ref ?? body.sandboxId ?? body.checkpointRef)
  cloud.performed.push({ method, ref, body })
  const instance = cloud.instances.get(ref)
  const target = body.target as { ref: string; incarnation: string | null } | undefined
  if (target) {
    const there = cloud.instances.get(target.ref)
    if (!there) return method === 'end' ? { result: null } : notFound(target.ref)
    const actual = there.state === 'running' ? String(there.incarnation) : null
    // A sandbox that sleeps already has been suspended; every other call was meant for what is there.
    if (actual !== target.incarnation && !(method === 'suspend' && there.state === 'suspended'))
      return { error: { type: 'overtaken', message: `${target.ref} is incarnation ${actual}` } }
    return act(cloud, method, there, body)
  }
  switch (method) {
    case 'find':
      return {
        result: cloud
          .instancesOf(ref)
          .filter(({ fleet }) => fleet === body.fleet)
          .map(({ ref, life }) => ({ ref, life })),
      }
    case 'list':
      return { result: page(cloud, [...cloud.instances.values()], body) }
    case 'listCheckpoints':
      return { result: page(cloud, [...cloud.checkpoints.values()], body) }
    case 'create':
      return { result: { ref: create(cloud, body as unknown as Creation) } }
    case 'adopt': {
      if (!instance) return notFound(ref)
      Object.assign(instance, body.owner)
      return { result: null }
    }
    case 'look':
      return { result: instance ? sighting(instance) : { is: 'absent' } }
    case 'resume':
      return instance ? resume(cloud, instance, body as unknown as { key: string }) : notFound(ref)
    case 'agentStatus':
      return instance
        ? { result: agentStatus(instance, body.agent as unknown as { incarnation: string; key?: string }) }
        : notFound(ref)
    case 'stopAgent': {
      const { key = '' } = body.agent as unknown as { key?: string }
      const agent = instance?.agents.get(key)
      if (!instance) return notFound(ref)
      if (agent && !agent.hasEnded && !agent.isStubborn) agent.whenStopped()
      return { result: null }
    }
    case 'verify':
      return { result: verify(cloud, ref) }
    case 'discard':
      cloud.checkpoints.delete(ref)
      return { result: null }
    default:
      throw new Error(`no such method: ${method}`)
  }
}

/** What is asked of an instance in the incarnation that was meant. */
function act(cloud: Cloud, method: Method, instance: FakeInstance, body: Body): Reply {
  const { ref } = instance
  switch (method) {
    case 'end':
      cloud.instances.delete(ref)
      for (const agent of instance.agents.values()) agent.stir()
      return { result: null }
    case 'run': {
      instance.commands.push(String(body.command))
      return { result: cloud.runs(String(body.command)) }
    }
    case 'endLingering':
      return { result: null }
    case 'startAgent': {
      const key = String(body.key)
      if (!instance.agents.has(key)) {
        const agent = new FakeAgent(body.command as unknown as string[], instance.incarnation)
        instance.agents.set(key, agent)
        cloud.starts(agent)
      }
      return { result: null }
    }
    case 'suspend': {
      if (instance.state === 'suspended') return { result: null }
      instance.state = 'suspended'
      instance.checkpointRef = cloud.losesCheckpoints ? undefined : keep(cloud, instance, 'pause')
      return { result: null }
    }
    case 'take': {
      const checkpointRef = `snapshot-${String(body.key)}`
      if (!cloud.checkpoints.has(checkpointRef)) keep(cloud, instance, 'snapshot', checkpointRef)
      return { result: { checkpointRef } }
    }
    case 'lease':
      instance.endsAtMs = Date.now() + Math.min(Number(body.ttlMs), cloud.ttlMsMax)
      return { result: null }
    default:
      throw new Error(`no such method: ${method}`)
  }
}

function create(cloud: Cloud, { fleet, sandboxId, life, ttlMs, spec }: Creation): string {
  const made = cloud.instancesOf(sandboxId).find((instance) => instance.fleet === fleet && instance.life === life)
  if (made) return made.ref
  const ref = `vm-${randomUUID().slice(0, 8)}`
  const instance: FakeInstance = {
    ref,
    fleet,
    sandboxId,
    life,
    state: cloud.neverReady ? 'changing' : 'running',
    incarnation: 1,
    wokenBy: [],
    checkpointRef: undefined,
    endsAtMs: Date.now() + Math.min(ttlMs, cloud.ttlMsMax),
    commands: [],
    agents: new Map(spec?.agent ? [['', new FakeAgent(spec.agent.command, 1)]] : []),
  }
  cloud.instances.set(ref, instance)
  return ref
}

/** Of all fleets that ask here, each sees its own. The order is that of the names, and a page begins behind a name. */
function page<T extends { ref: string; fleet?: string; sandboxId?: string }>(
  cloud: Cloud,
  all: T[],
  { fleet, cursor }: Body,
) {
  const own = all
    .filter((item) => item.fleet === fleet && cloud.shows(item.ref) && item.ref > String(cursor ?? ''))
    .sort((a, b) => (a.ref < b.ref ? -1 : 1))
  const items = own.slice(0, cloud.pageSize).map((item) => ({
    ref: item.ref,
    fleet: item.fleet,
    sandboxId: item.sandboxId,
    ...('life' in item && { life: item.life }),
    ...('state' in item && item.state === 'lost' && { isLost: true }),
    ...('kind' in item && { kind: item.kind }),
  }))
  return cloud.turnsPages({ items, next: own.length > cloud.pageSize ? (items.at(-1)?.ref ?? null) : null })
}

function sighting(instance: FakeInstance): unknown {
  switch (instance.state) {
    case 'running':
      return { is: 'running', incarnation: String(instance.incarnation), endsAtMs: instance.endsAtMs }
    case 'suspended':
      return { is: 'suspended', checkpointRef: instance.checkpointRef ?? null }
    case 'changing':
      return { is: 'changing', why: 'it takes its time' }
    case 'lost':
      return { is: 'lost', why: 'its node is gone' }
  }
}

function agentStatus(instance: FakeInstance, { incarnation, key }: { incarnation: string; key?: string }): unknown {
  if (instance.state === 'suspended') return { is: 'asleep' }
  if (String(instance.incarnation) !== incarnation)
    return { is: 'restarted', why: `It is incarnation ${instance.incarnation} by now.` }
  const agent = instance.agents.get(key ?? '')
  if (!agent) return { is: 'none' }
  if (agent.hasEnded && agent.lagsFor-- > 0) return { is: 'running' }
  return agent.status
}
