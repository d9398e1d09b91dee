import { BackendError } from '../backends/backend.ts'
import { listCheckpoints } from '../db/checkpoints.ts'
import type { Ending, Rest } from '../db/ending.ts'
import { teardownQueue } from '../queues/teardown.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { endAll, vanished } from './end.ts'
import { checkpointAfter, look, running, verified } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { isBackendError } from './provider.ts'
import { checkpointOf } from './sleep.ts'

/** Checkpoints that are read at a time when all of a sandbox's are deleted. */
const PAGE = 100

/**
 * Ends a sandbox: kill frees what it computes with, destroy also forgets what it could be resumed from. Whatever carries its
 * label is ended, whatever it is doing. Not found at the provider is success; that it is gone is said when it was seen to be.
 *
 * Delivered twice, or after a crash: the second finds less to do, or nothing.
 */
export const teardown: Verb = {
  queue: teardownQueue,
  persists: true,

  async perform(work) {
    if (work.operation.options.only === 'lost') return endIfLost(work)
    await endAll(work)
    if (work.operation.kind !== 'destroy') return ended(work)
    await discardAll(work)
    return { ...ended(work), checkpoints: { which: 'all', are: 'deleted' } }
  },

  async giveUp(work, error) {
    const seen = await look(work).catch((unknown: unknown) => {
      if (mayHaveActed(work)) throw unknown
      return undefined
    })
    // Not all of it could be ended or deleted, and what is left would be out of reach once it is gone: so this goes on.
    if (seen?.is === 'absent' || seen?.is === 'lost') return undefined
    if (work.checkpoint && seen?.is !== 'running') return { status: 'failed', error, rest: { state: 'suspended' } }
    if (seen?.is === 'suspended') return asleep(work, error)
    return { status: 'failed', error, rest: seen ? running(seen) : { state: 'running' } }
  },
}

/** Ends what its provider has lost, or has nothing left to resume from. Everything else is left alone. */
async function endIfLost(work: Work): Promise<Ending> {
  const seen = await look(work)
  const done = { status: 'succeeded', outcome: 'done' } as const
  if (seen.is === 'absent' || seen.is === 'lost')
    return { ...done, rest: (await vanished(work, seen)).rest, ...(await checkpointAfter(work)) }
  if (seen.is === 'running') return notLost(work, running(seen))
  if (seen.broken !== undefined) {
    work.evidence.broken = seen.broken
    await endAll(work) // it sleeps for ever, and would cost as much
    return { ...done, rest: { state: 'gone', reason: 'checkpoint_missing' }, ...(await checkpointAfter(work)) }
  }
  const { pausing } = work.backend
  if (!work.checkpoint || pausing === 'none') {
    const ending = await asleep(work, mistaken(work, 'suspended'))
    if (ending) return ending
    throw new BackendError('checkpoint_missing', `${work.sandbox.id} sleeps, and its provider shows no checkpoint.`)
  }
  if (!pausing.needsCheckpoint) return notLost(work, { state: 'suspended' })
  const reason = await verified(work, pausing, { kind: 'pause', checkpointRef: work.checkpoint.provider_ref }).then(
    () => undefined,
    (error: unknown) => {
      if (isBackendError(error, 'checkpoint_missing')) return 'checkpoint_missing' as const
      if (isBackendError(error, 'checkpoint_corrupt')) return 'checkpoint_corrupt' as const
      throw error
    },
  )
  if (!reason) return notLost(work, { state: 'suspended' })
  await endAll(work)
  return { ...done, rest: { state: 'gone', reason }, checkpoints: { which: 'own', are: 'missing' } }
}

/** Whoever thought that it was lost was wrong: it is where it is, and nothing is done to it. */
function notLost(work: Work, rest: Exclude<Rest, { state: 'gone' }>): Ending {
  return { status: 'failed', error: mistaken(work, rest.state), rest }
}

function mistaken({ sandbox }: Work, seen: string): Failure {
  return failure('invalid_transition', `${sandbox.id} is not lost: its provider shows it ${seen}.`)
}

/**
 * Put to sleep by its provider, which nobody had asked for. Without anything that it can be resumed from it is neither
 * suspended nor, as long as it is there, gone.
 */
async function asleep(work: Work, error: Failure): Promise<Ending | undefined> {
  const { pausing } = work.backend
  if (pausing === 'none') return undefined
  try {
    return { status: 'failed', error, rest: { state: 'suspended', checkpoint: await checkpointOf(work, pausing) } }
  } catch (thrown) {
    if (isBackendError(thrown, 'checkpoint_missing', 'checkpoint_corrupt')) return undefined
    throw thrown
  }
}

async function discardAll({ db, backend, provider, sandbox }: Work): Promise<void> {
  for (let after = ''; ; ) {
    const page = await listCheckpoints(db, { sandboxId: sandbox.id, after, max: PAGE })
    for (const { kind, provider_ref } of page) {
      const checkpoints = kind === 'pause' ? backend.pausing : backend.snapshots
      if (checkpoints === 'none') continue
      await provider
        .ask('discard', (call) => checkpoints.discard(provider_ref, call))
        .catch((error: unknown) => {
          if (!isBackendError(error, 'in_use')) throw error // the sweeper deletes it when it can be
        })
    }
    if (page.length < PAGE) return
    after = page.at(-1)?.id as string
  }
}

function ended({ operation }: Work): Ending {
  const reasons: Partial<Record<typeof operation.kind, GoneReason>> = {
    destroy: 'destroyed',
    pause: 'pause_unsupported',
  }
  const rest = { state: 'gone', reason: reasons[operation.kind] ?? 'killed' } as const
  return { status: 'succeeded', outcome: 'done', rest }
}
