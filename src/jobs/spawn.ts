import { BackendError } from '../backends/backend.ts'
import type { Spec } from '../backends/spec.ts'
import { findCheckpoint } from '../db/checkpoints.ts'
import type { Ending, Rest } from '../db/ending.ts'
import { findByProviderRef } from '../db/sandboxes.ts'
import { spawnQueue } from '../queues/spawn.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { endInstance } from './end.ts'
import { look, lookNow, running, verified } from './look.ts'
import { mayHaveActed, type Verb, type Work } from './operation.ts'
import { failureOf, isBackendError } from './provider.ts'
import { type Awake, wake } from './wake.ts'

/** What is taken over instead of being made. */
export type Adoption = { ref: string; checkpointRef?: string | undefined }

/**
 * Brings a sandbox to life, or takes over an instance that somebody else has made.
 *
 * Delivered twice, or after a crash: an instance carries its sandbox and the operation that made it, so the second looks for
 * it by that label, and makes none if there is one.
 * Failed: what was made is ended again, and seen to have ended. What was only to be taken over is left alone.
 */
export const spawn: Verb = {
  queue: spawnQueue,

  async perform(work) {
    const adoption = adoptionOf(work)
    if (adoption) return adopt(work, adoption)
    return { status: 'succeeded', outcome: 'done', rest: await bringToLife(work, { skipHooks: false }) }
  },

  async giveUp(work, error) {
    if (!adoptionOf(work)) await endOwn(work)
    return { status: 'failed', error, rest: { state: 'gone', reason: 'spawn_failed' } }
  },

  /** Labels what was taken over: only now is it settled who of several has it. What is left unlabelled is still its row's. */
  async tidyUp(work, { status }) {
    const { backend, operation, provider, sandbox } = work
    const adoption = adoptionOf(work)
    if (!adoption || status !== 'succeeded') return
    const owner = { sandboxId: sandbox.id, life: operation.id }
    await provider.ask('adopt', (call) => backend.adopt(adoption.ref, owner, call))
  },
}

/** A new life, under the id that the sandbox has. Instances of earlier lives, whatever has kept them alive, are replaced. */
export async function bringToLife(work: Work, { skipHooks }: { skipHooks: boolean }): Promise<Awake> {
  const { backend, operation, provider, sandbox } = work
  const life = operation.id
  // The first attempt at a new sandbox need not look: nobody can have made anything for it.
  const isFirst = operation.kind === 'spawn' && operation.attempt === 1
  const found = isFirst ? [] : await provider.ask('find', (call) => backend.find(sandbox.id, call))
  for (const other of found.filter((instance) => instance.life !== life)) await endInstance(work, other.ref)

  // What earlier commands of this operation have left running is ended before they are run again.
  const how = { isNew: operation.attempt === 1, skipHooks }
  const [mine, ...surplus] = found.filter((instance) => instance.life === life)
  for (const { ref } of surplus) await endInstance(work, ref)
  const seen = mine && (await lookNow(work, mine.ref))
  // Lost, or put to sleep before anybody had seen it awake: nothing is lost by making it anew. One that is there is asked for
  // again, too: whoever made it may have died before it was started, or its agent.
  if (mine && (seen?.is === 'lost' || seen?.is === 'suspended')) await endInstance(work, mine.ref)

  const { adopt: _, ...spec } = sandbox.spec as Spec & { adopt?: Adoption }
  const wanted = {
    sandboxId: sandbox.id,
    life,
    spec,
    // What is there has begun already as what it was to begin as.
    checkpointRef: await findOrigin(work).catch((error: unknown) => {
      if (seen?.is !== 'running') throw error
      return undefined
    }),
    ttlMs: work.leaseMs,
  }
  const { ref } = await provider.ask('create', (call) => backend.create(wanted, call))
  return wake(work, ref, how)
}

/** Ends what this operation has made. Returns when nothing of it is left; throws when nobody can say, and there may be. */
export async function endOwn(work: Work): Promise<void> {
  const { backend, operation, provider, sandbox } = work
  const hadActed = mayHaveActed(work)
  const found = await provider
    .ask('find', (call) => backend.find(sandbox.id, call))
    .catch((unknown: unknown) => {
      if (hadActed) throw unknown
      return []
    })
  for (const own of found.filter(({ life }) => life === operation.id)) await endInstance(work, own.ref)
}

/** The provider's name for the checkpoint that the sandbox's files begin as. */
async function findOrigin({ db, fleet, sandbox }: Work): Promise<string | undefined> {
  const { from } = sandbox.spec as Spec
  if (from === undefined) return undefined
  const found = await findCheckpoint(db, { fleet, id: from })
  if (found?.checkpoint.status === 'ready' && found.backend === sandbox.backend) return found.checkpoint.provider_ref
  const why = !found
    ? 'this fleet has no such checkpoint'
    : found.checkpoint.status !== 'ready'
      ? `it is ${found.checkpoint.status}`
      : `it is on backend ${found.backend}, and the sandbox on ${sandbox.backend}`
  throw new BackendError('checkpoint_missing', `${sandbox.id} cannot be made from ${from}: ${why}.`)
}

/** Only the spawn itself takes over. When such a sandbox is respawned later, it is made like any other. */
function adoptionOf({ operation, sandbox }: Work): Adoption | undefined {
  return operation.kind === 'spawn' ? (sandbox.spec as { adopt?: Adoption }).adopt : undefined
}

async function adopt(work: Work, { ref, checkpointRef }: Adoption): Promise<Ending> {
  const { db, sandbox } = work
  const other = await findByProviderRef(db, { backend: sandbox.backend, providerRef: ref })
  if (other && other.id !== sandbox.id) return refuse(failure('spec_invalid', `${ref} is already ${other.id}.`))

  const seen = await look(work, ref)
  if (seen.is === 'absent') return refuse(failure('sandbox_expired', `There is no ${ref} at its provider.`), 'expired')
  if (seen.is === 'lost') return refuse(failure('sandbox_expired', `${ref} is lost: ${seen.why}.`), 'instance_lost')
  const rest =
    seen.is === 'running'
      ? { ...running(seen), providerRef: ref }
      : await asleep(work, { ref, checkpointRef: seen.checkpointRef ?? checkpointRef })
  if ('error' in rest) return refuse(rest.error)
  return { status: 'succeeded', outcome: 'done', rest }
}

async function asleep(work: Work, { ref, checkpointRef }: Adoption): Promise<Rest | { error: Failure }> {
  const { pausing } = work.backend
  if (pausing === 'none' || checkpointRef === undefined)
    return { error: failure('checkpoint_missing', `${ref} is suspended, and its provider shows no checkpoint.`) }
  try {
    const checkpoint = await verified(work, pausing, { kind: 'pause', checkpointRef })
    return { state: 'suspended', providerRef: ref, checkpoint }
  } catch (error) {
    if (!isBackendError(error, 'checkpoint_missing', 'checkpoint_corrupt')) throw error
    return { error: failureOf(error) }
  }
}

function refuse(error: Failure, reason: GoneReason = 'spawn_failed'): Ending {
  return { status: 'failed', error, rest: { state: 'gone', reason } }
}
