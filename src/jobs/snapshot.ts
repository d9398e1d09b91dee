import type { Ending } from '../db/ending.ts'
import { snapshotQueue } from '../queues/snapshot.ts'
import { failure } from '../sandbox/failures.ts'
import { vanished } from './end.ts'
import { look, refOf, running, verified } from './look.ts'
import type { Verb, Work } from './operation.ts'
import { atRest, putToRest } from './pause.ts'
import { checkpointOf } from './sleep.ts'

/**
 * Copies a sandbox while it keeps running. A snapshot is there when it was seen to be whole.
 *
 * Delivered twice, or after a crash: the operation's id is the key, so the second finds what the first has made.
 * Put to sleep by its provider meanwhile: then there is a checkpoint, and that is the answer.
 */
export const snapshot: Verb = {
  queue: snapshotQueue,

  async perform(work) {
    const { backend, operation, provider } = work
    const { snapshots, pausing } = backend
    if (snapshots === 'none') return unsupported(work)

    const seen = await look(work)
    if (seen.is === 'absent' || seen.is === 'lost') return vanished(work, seen)
    if (seen.is === 'suspended' && pausing !== 'none') return atRest(work, await checkpointOf(work, pausing))
    const target = { ref: refOf(work), incarnation: seen.is === 'running' ? seen.incarnation : null }
    const { name } = operation.options
    const { checkpointRef } = await provider.ask('snapshot', (call) =>
      snapshots.take(target, { key: operation.id, name }, call),
    )
    const taken = await verified(work, snapshots, { kind: 'snapshot', checkpointRef, name })
    return { status: 'succeeded', outcome: 'done', rest: { state: 'running', snapshot: taken } }
  },

  async giveUp(work, error) {
    // A snapshot changes nothing about where its sandbox is: who cannot be seen is where it was.
    const seen = await look(work).catch(() => undefined)
    if (seen?.is === 'absent' || seen?.is === 'lost') return vanished(work, seen)
    if (seen?.is === 'suspended' && work.backend.pausing !== 'none') return putToRest(work, work.backend.pausing, seen)
    return { status: 'failed', error, rest: seen?.is === 'running' ? running(seen) : { state: 'running' } }
  },
}

function unsupported({ sandbox }: Work): Ending {
  const error = failure(
    'snapshot_unsupported',
    `${sandbox.id} keeps running: backend ${sandbox.backend} cannot copy it.`,
  )
  return { status: 'failed', error, rest: { state: 'running' } }
}
