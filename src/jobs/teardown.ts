import { BackendError } from '../backends/backend.ts'
import { listCheckpoints } from '../db/checkpoints.ts'
import type { Ending, Rest } from '../db/settle.ts'
import { teardownQueue } from '../queues/teardown.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { look, refOf } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { isBackendError } from './provider.ts'
import { checkpointOf } from './sleep.ts'

/** Checkpoints that are read at a time when all of a sandbox's are deleted. */
const PAGE = 100

/**
 * Ends a sandbox: kill frees what it computes with, destroy also forgets what it could be resumed from. Not found at the
 * provider is success; that it is gone is said when it was seen to be.
 *
 * Delivered twice, or after a crash: the second finds less to do, or nothing.
 * Late: the call carries the incarnation that this attempt has seen, and cannot hit another one.
 */
export const teardown: Verb = {
  queue: teardownQueue,

  async perform(work) {
    await endInstance(work, refOf(work))
    if (work.operation.kind !== 'destroy') return ended(work)
    await discardAll(work)
    return { ...ended(work), checkpoints: { which: 'all', are: 'deleted' } }
  },

  async giveUp(work, error) {
    const seen = await look(work).catch((unknown: unknown) => {
      if (mayHaveActed(work)) throw unknown
      return undefined
    })
    // Nothing computes any more. What could not be deleted besides is found by the sweeper.
    if (seen?.is === 'absent' || seen?.is === 'lost') {
      return work.operation.kind === 'destroy' ? { status: 'failed', error, rest: gone(work) } : ended(work)
    }
    if (work.checkpoint && seen?.is !== 'running') return { status: 'failed', error, rest: { state: 'suspended' } }
    if (seen?.is === 'suspended') return { status: 'failed', error, rest: await asleep(work) }
    return { status: 'failed', error, rest: { state: 'running', incarnation: seen?.incarnation } }
  },
}

/** Put to sleep by its provider, which nobody had asked for; with something it can be resumed from, or without. */
async function asleep(work: Work): Promise<Rest> {
  const lost = { state: 'gone', reason: 'checkpoint_missing' } as const
  if (work.backend.pausing === 'none') return lost
  try {
    return { state: 'suspended', checkpoint: await checkpointOf(work, work.backend.pausing) }
  } catch (error) {
    if (isBackendError(error, 'checkpoint_missing', 'checkpoint_corrupt')) return lost
    throw error
  }
}

/** Ends an instance, and returns when the provider says that there is none. */
export async function endInstance(work: Work, ref: string): Promise<void> {
  const { backend, provider, sandbox } = work
  const seen = await look(work, ref)
  if (seen.is === 'absent') return
  const target = { ref, incarnation: seen.is === 'running' ? seen.incarnation : null }
  await provider.ask('end', (call) => backend.end(target, call))
  await provider.poll(provider.patience.changingMs, async () => {
    const { is } = await look(work, ref)
    if (is === 'absent') return { answer: undefined }
    return {
      still: new BackendError('sandbox_unreachable', `${sandbox.id} was ended, and its provider still shows it ${is}.`),
    }
  })
}

async function discardAll({ db, backend, provider, sandbox }: Work): Promise<void> {
  for (let after = ''; ; ) {
    const page = await listCheckpoints(db, { sandboxId: sandbox.id, after, max: PAGE })
    for (const { kind, provider_ref } of page) {
      const checkpoints = kind === 'pause' ? backend.pausing : backend.snapshots
      if (checkpoints !== 'none') await provider.ask('discard', (call) => checkpoints.discard(provider_ref, call))
    }
    if (page.length < PAGE) return
    after = page.at(-1)?.id as string
  }
}

function ended(work: Work): Ending {
  return { status: 'succeeded', outcome: 'done', rest: gone(work) }
}

function gone({ operation }: Work): { state: 'gone'; reason: GoneReason } {
  const reasons = { destroy: 'destroyed', pause: 'pause_unsupported' } as const
  const reason = operation.kind === 'destroy' || operation.kind === 'pause' ? reasons[operation.kind] : 'killed'
  return { state: 'gone', reason }
}
