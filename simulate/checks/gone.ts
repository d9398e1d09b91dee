import type { GoneReason } from '../../src/sandbox/states.ts'
import type { Check } from './all.ts'

/** What somebody has asked for, when this is why a sandbox is gone. */
const ASKED: Partial<Record<GoneReason, readonly string[]>> = {
  killed: ['kill', 'pause'],
  destroyed: ['destroy'],
  pause_unsupported: ['pause'],
}
/** What its provider has done, when nobody has. */
const HAPPENED: readonly GoneReason[] = ['expired', 'instance_lost', 'checkpoint_missing', 'checkpoint_corrupt']

/** Its time at the provider is for Sandman to prolong: that it was up is no excuse, but for one with a hard limit. */
const OWN_FAULT = 'its time was up'

/** A sandbox is gone for the reason that it says: somebody wanted it to be, or its provider has lost something of it. */
export const checkGone: Check = async ({ world, db, found }) => {
  const gone = await db.selectFrom('events').selectAll().where('to_state', '=', 'gone').orderBy('id').execute()
  for (const { sandbox_id: id, detail } of gone) {
    const reason = (detail as { reason?: GoneReason }).reason as GoneReason
    const kinds = ASKED[reason]
    if (kinds) {
      const asked = await db
        .selectFrom('operations')
        .select('kind')
        .where('sandbox_id', '=', id)
        .where('kind', 'in', kinds as never)
        .execute()
      if (asked.length === 0)
        found('gone for a true reason', id, `it is gone: ${reason}, and nobody has asked for that`)
    }
    if (!HAPPENED.includes(reason)) continue
    const { cloud } = world
    const row = await db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    const labelled = [...cloud.instances.values(), ...cloud.ended].filter(({ sandboxId }) => sandboxId === id)
    // What was taken over may never have got its label.
    const { ref: adopted } = (row.spec as { adopt?: { ref?: string } }).adopt ?? {}
    const refs = [row.provider_ref, adopted, ...labelled.map(({ ref }) => ref)]
    const lost = cloud.mishaps.filter(({ sandboxId, ref }) => sandboxId === id || refs.includes(ref))
    const isTrue = lost.some(({ what }) => what !== OWN_FAULT || row.hard_ttl_ms !== null)
    if (!isTrue) found('gone for a true reason', id, `it is gone: ${reason}, and its provider has lost nothing of it`)
  }
}
