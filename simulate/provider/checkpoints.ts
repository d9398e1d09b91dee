import type { Call, CheckpointCondition, Checkpoints, Snapshots, Target } from '../../src/backends/backend.ts'
import type { Reply } from './call.ts'
import type { Abilities, Cloud, Instance } from './cloud.ts'

export type Asking = <T>(method: string, about: string, given: Call, perform: (reply: Reply<T>) => void) => Promise<T>
type AskingOf = <T>(
  method: string,
  target: Target,
  given: Call,
  perform: (instance: Instance, reply: Reply<T>) => void,
) => Promise<T>

export function checkpointsOf(cloud: Cloud, abilities: Abilities, call: Asking): Checkpoints {
  return {
    verify: (ref, given) =>
      call<CheckpointCondition>('verify', ref, given, (reply) => reply.with(condition(cloud, abilities, ref))),
    discard: (ref, given) =>
      call<void>('discard', ref, given, (reply) => {
        // Where instance and checkpoint are one, there is nothing that could be deleted alone.
        if (!ref.includes('@')) {
          const found = cloud.checkpoints.get(ref)
          if (found) cloud.discards.push({ atMs: cloud.engine.nowMs, ref, sandboxId: found.sandboxId })
          cloud.checkpoints.delete(ref)
        }
        reply.with()
      }),
  }
}

function condition(cloud: Cloud, { pausing }: Abilities, ref: string): CheckpointCondition {
  if (pausing === 'one' && ref.includes('@')) {
    const instance = cloud.instances.get(ref.split('@')[0] ?? '')
    const isOfThisRun = instance && ref === `${instance.ref}@${instance.incarnation}`
    if (isOfThisRun && (instance.state !== 'suspended' || instance.isPausing)) return { is: 'pending' }
  }
  const found = cloud.checkpoints.get(ref)
  if (!found) return { is: 'missing', why: 'there is no such checkpoint' }
  if (found.condition === 'pending') return { is: 'pending' }
  if (found.condition === 'corrupt') return { is: 'corrupt', why: 'its checksum is wrong' }
  return { is: 'ready', sizeBytes: 4_096 }
}

export function snapshotsOf(cloud: Cloud, abilities: Abilities, call: Asking, on: AskingOf): Snapshots {
  return {
    ...checkpointsOf(cloud, abilities, call),
    take: (target, { key }, given) =>
      on('snapshot', target, given, (instance, reply) => {
        const checkpointRef = `snap-${key}`
        if (!cloud.checkpoints.has(checkpointRef)) {
          const pendingMs = cloud.random.chance(0.5) ? 0 : cloud.random.between(0, 8_000)
          cloud.keep(instance, 'snapshot', checkpointRef, pendingMs)
        }
        reply.with({ checkpointRef })
      }),
  }
}
