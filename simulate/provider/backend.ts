import type { Agent, Backend, Call, Target } from '../../src/backends/backend.ts'
import { attach } from './attach.ts'
import { ask, type Reply } from './call.ts'
import { checkpointsOf, snapshotsOf } from './checkpoints.ts'
import type { Abilities, Cloud, Instance } from './cloud.ts'
import { listsOf } from './lists.ts'
import { agentStatus, create, endInstance, LEASE_MS_MAX, sight, stopAgent, suspend } from './perform.ts'
import { wake } from './sleep.ts'

/** The command of an agent that does what it was started for. What others do is chance. */
export const ORDERLY = 'finish'

/** A backend of the simulation: as its contract says, over a network that loses, delays and repeats, to a provider that errs. */
export function simulatedBackend(cloud: Cloud, abilities: Abilities): Backend {
  const { name, pausing, canSnapshot, lease, preserves, needsCheckpoint, isShownEarly } = abilities
  const { engine, fleet } = cloud

  const call = <T>(method: string, about: string, given: Call, perform: (reply: Reply<T>) => void): Promise<T> =>
    ask(cloud, { backend: name, method, about }, given, perform)

  const find = (ref: string): Instance | undefined => {
    const instance = cloud.instances.get(ref)
    return instance?.backend === name ? instance : undefined
  }

  /** What is asked of an instance in the incarnation that was meant. */
  const on = <T>(
    method: string,
    { ref, incarnation }: Target,
    given: Call,
    perform: (it: Instance, reply: Reply<T>) => void,
  ) =>
    call<T>(method, ref, given, (reply) => {
      const instance = find(ref)
      if (!instance) return reply.failing('sandbox_expired', `there is no ${ref}`)
      const actual = instance.state === 'running' ? String(instance.incarnation) : null
      if (actual !== incarnation) return reply.failing('overtaken', `${ref} is incarnation ${actual}`)
      perform(instance, reply)
    })

  const agentOf = (agent: Agent, reply: Reply<never>): Instance | undefined => {
    const instance = find(agent.ref)
    if (!instance) reply.failing('sandbox_expired', `there is no ${agent.ref}`)
    return instance
  }

  return {
    name,
    find: (sandboxId, given) =>
      call('find', sandboxId, given, (reply) =>
        reply.with(
          cloud
            .instancesOf(sandboxId)
            .filter((instance) => instance.backend === name && instance.fleet === fleet)
            .map(({ ref, life }) => ({ ref, life })),
        ),
      ),
    create: (wanted, given) =>
      call('create', wanted.sandboxId, given, (reply) => create(cloud, abilities, wanted, reply)),
    adopt: (ref, owner, given) =>
      call<void>('adopt', ref, given, (reply) => {
        const instance = find(ref)
        if (!instance) return reply.failing('sandbox_expired', `there is no ${ref}`)
        Object.assign(instance, { fleet, sandboxId: owner.sandboxId, life: owner.life })
        reply.with()
      }),
    look: (ref, given) => call('look', ref, given, (reply) => reply.with(sight(cloud, abilities, find(ref)))),
    end: (target, given) =>
      call<void>('end', target.ref, given, (reply) => endInstance(cloud, find(target.ref), target, reply)),
    run: (target, command, given) =>
      on('run', target, given, (_instance, reply) => {
        if (cloud.conduct.happens('hook_fails')) reply.with({ exitCode: 1, output: 'no such luck' })
        else reply.with({ exitCode: 0, output: command.includes('awake') ? 'awake\n' : '' })
      }),
    endLingering: (target, given) =>
      on<void>('end_lingering', target, given, (instance, reply) => {
        for (const agent of instance.agents.values()) if (agent.key !== '') agent.endBy('stop', { signal: 'SIGKILL' })
        reply.with()
      }),
    previewUrl: (ref, port, given) =>
      call('preview_url', ref, given, (reply) => reply.with(`http://${ref}.${name}.simulated:${port}/`)),

    startAgent: (target, { key, command }, given) =>
      on<void>('start_agent', target, given, (instance, reply) => {
        if (!instance.agents.has(key)) cloud.startAgent(instance, key, { isOrderly: command[0] === ORDERLY })
        reply.with()
      }),
    stopAgent: (agent, given) =>
      call<void>('stop_agent', agent.ref, given, (reply) => {
        const instance = agentOf(agent, reply)
        if (instance) stopAgent(cloud, instance, agent, reply)
      }),
    agentStatus: (agent, given) =>
      call('agent_status', agent.ref, given, (reply) => {
        const instance = agentOf(agent, reply)
        if (instance) reply.with(agentStatus(cloud, instance, agent))
      }),
    attach: (agent, cursor, given) => attach(cloud, abilities, agent, cursor, given),

    lists: listsOf(cloud, abilities, call),
    pausing:
      pausing === 'none'
        ? 'none'
        : {
            ...checkpointsOf(cloud, abilities, call),
            preserves,
            consumesCheckpoint: pausing === 'one',
            needsCheckpoint,
            ...(isShownEarly && { isShownEarly }),
            suspend: (target, _asked, given) =>
              call('suspend', target.ref, given, (reply) => suspend(cloud, abilities, find(target.ref), target, reply)),
            resume: ({ ref, checkpointRef }, _asked, given) =>
              call<void>('resume', ref, given, (reply) => {
                const instance = find(ref)
                if (!instance || instance.isEnding) return reply.failing('sandbox_expired', `there is no ${ref}`)
                if (instance.state === 'running') return reply.with()
                if (instance.state === 'lost') return reply.failing('sandbox_expired', `${ref} is lost`)
                if (instance.state === 'changing' || instance.isPausing)
                  return reply.failing('sandbox_unreachable', `${ref} is on its way`)
                // What sleeps there may be a later run than the one that was to be woken.
                if (checkpointRef !== undefined && checkpointRef !== instance.checkpointRef && needsCheckpoint)
                  return reply.failing('checkpoint_missing', `what sleeps is ${instance.checkpointRef}`)
                const why = wake(cloud, abilities, instance)
                if (why === undefined) reply.with()
                else reply.failing(why as 'checkpoint_missing', `${ref} cannot be woken: ${why}`)
              }),
          },
    snapshots: canSnapshot ? snapshotsOf(cloud, abilities, call, on) : 'none',
    lease:
      lease === 'none'
        ? 'none'
        : {
            set: (target, ttlMs, given) =>
              on<void>('lease', target, given, (instance, reply) => {
                instance.endsAtMs = engine.nowMs + Math.min(ttlMs, LEASE_MS_MAX)
                reply.with()
              }),
          },
    close: async () => {},
  }
}
