import { randomUUID } from 'node:crypto'
import type { Reply } from './calls.ts'
import type { Cloud, FakeInstance } from './cloud.ts'

/** What resuming sets the time-to-live to, whatever was asked for: silently, as some do. */
const TTL_AFTER_RESUME_MS = 300_000

export function keep(
  cloud: Cloud,
  instance: FakeInstance,
  kind: 'pause' | 'snapshot',
  ref = `ckpt-${randomUUID().slice(0, 8)}`,
): string {
  const { ref: of, fleet, sandboxId } = instance
  cloud.checkpoints.set(ref, { ref, of, fleet, sandboxId, kind, condition: 'ready' })
  return ref
}

export function resume(cloud: Cloud, instance: FakeInstance, { key }: { key: string }): Reply {
  if (instance.state === 'running') return { result: null }
  const kept = instance.checkpointRef === undefined ? undefined : cloud.checkpoints.get(instance.checkpointRef)
  if (!cloud.thawsWithoutCheckpoint && (!kept || kept.condition === 'missing'))
    return {
      error: { type: 'checkpoint_missing', message: `${instance.ref} is suspended but has no checkpoint data` },
    }
  if (kept?.condition === 'corrupt')
    return { error: { type: 'checkpoint_corrupt', message: `${kept.ref} cannot be read: checksum mismatch` } }
  instance.state = 'running'
  instance.incarnation++
  instance.wokenBy.push(key)
  instance.endsAtMs = Date.now() + TTL_AFTER_RESUME_MS
  return { result: null }
}

export function verify(cloud: Cloud, ref: string): unknown {
  const kept = cloud.checkpoints.get(ref)
  if (cloud.verifiesUntilReady > 0) {
    cloud.verifiesUntilReady--
    return { is: 'pending' }
  }
  if (!kept) return { is: 'missing', why: 'there is no such checkpoint' }
  return kept.condition === 'ready'
    ? { is: 'ready', sizeBytes: 4_096 }
    : { is: kept.condition, why: 'so it was scripted' }
}
