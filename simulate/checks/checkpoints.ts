import { FLEET } from '../world.ts'
import type { Check } from './all.ts'

const ROTTEN = 'a checkpoint is not whole any more'

/** No suspended sandbox without a checkpoint that is really there, and no checkpoint that nobody knows of. */
export const checkCheckpoints: Check = async ({ world, db, found }) => {
  const { cloud } = world
  const kept = await db
    .selectFrom('checkpoints')
    .innerJoin('sandboxes', 'sandboxes.id', 'checkpoints.sandbox_id')
    .selectAll('checkpoints')
    .select(['backend', 'state', 'sandboxes.checkpoint_id as rests_on', 'sandboxes.provider_ref as instance_ref'])
    .orderBy('checkpoints.id')
    .execute()
  for (const { id, provider_ref, sandbox_id, backend, state, rests_on, instance_ref } of kept) {
    if (state !== 'suspended' || rests_on !== id || !world.abilitiesOf(backend).needsCheckpoint) continue
    const condition = cloud.checkpoints.get(provider_ref)?.condition
    const isRotten = cloud.mishaps.some(({ ref, what }) => ref === provider_ref && what === ROTTEN)
    if (condition !== 'ready' && !(condition === 'corrupt' && isRotten))
      found(
        'suspended means a checkpoint at the provider',
        sandbox_id,
        `${provider_ref} is ${condition ?? 'not there'}`,
      )
    const sleepsOn = cloud.instances.get(instance_ref ?? '')?.checkpointRef
    if (sleepsOn !== undefined && sleepsOn !== provider_ref)
      found('a sandbox sleeps on what its row says', sandbox_id, `it sleeps on ${sleepsOn}, and not on ${provider_ref}`)
  }
  const known = new Set(kept.filter(({ status }) => status !== 'deleted').map(({ provider_ref }) => provider_ref))
  for (const { ref, fleet, sandboxId, kind } of cloud.checkpoints.values()) {
    if (fleet === FLEET && !ref.includes('@') && !known.has(ref))
      found('no checkpoint that nobody knows of', sandboxId, `the ${kind} ${ref} is at its provider, and in no row`)
  }
}

/** A checkpoint is written down when it was seen to be whole, and not because somebody said so. */
export const checkWhole: Check = async ({ world, db, found }) => {
  const kept = await db.selectFrom('checkpoints').select(['provider_ref', 'sandbox_id', 'kind']).orderBy('id').execute()
  for (const { provider_ref, sandbox_id, kind } of kept)
    if (!world.cloud.wholeSinceMs.has(provider_ref))
      found('a checkpoint that is written down was whole', sandbox_id, `the ${kind} ${provider_ref} never was`)
}

/** What took a checkpoint away, or made it worthless. */
const UNMADE = ['a checkpoint was forgotten', ROTTEN]

/** Whoever was told that a pause or a snapshot is done has something to come back to: it was whole when that was said. */
export const checkPromised: Check = async ({ world, db, found }) => {
  const { cloud } = world
  const done = await db
    .selectFrom('operations')
    .innerJoin('events', 'events.operation_id', 'operations.id')
    .leftJoin('checkpoints', 'checkpoints.id', 'operations.checkpoint_id')
    .select(['operations.id', 'operations.kind', 'operations.sandbox_id', 'settled_at', 'started_at', 'provider_ref'])
    .where('operations.kind', 'in', ['pause', 'snapshot'])
    .where('outcome', '=', 'done')
    .where('to_state', 'in', ['suspended', 'running'])
    .orderBy('operations.id')
    .execute()
  for (const { id, sandbox_id, settled_at, started_at, provider_ref, ...operation } of done) {
    const tell = (why: string) =>
      found('what is said to be kept is kept', sandbox_id, `${operation.kind} ${id} is done, and ${why}`)
    if (provider_ref === null) tell('names no checkpoint')
    else {
      const sinceMs = cloud.wholeSinceMs.get(provider_ref) ?? Number.POSITIVE_INFINITY
      if (sinceMs > (settled_at as Date).getTime() + 1) tell(`${provider_ref} was not whole then`)
      const unmade = cloud.mishaps.find(({ ref, what }) => ref === provider_ref && UNMADE.includes(what))
      if (unmade && unmade.atMs < (started_at as Date).getTime()) tell(`${provider_ref} was so no more: ${unmade.what}`)
    }
  }
}
