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
    if (!world.cloud.wholeOnce.has(provider_ref))
      found('a checkpoint that is written down was whole', sandbox_id, `the ${kind} ${provider_ref} never was`)
}
