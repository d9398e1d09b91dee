import { findYoung, recordVerified, verifyLater, type Young } from '../db/checkpoints.ts'
import { forEach } from '../each.ts'
import { suspect } from './round.ts'
import { lookOnce, type Tick } from './tick.ts'

/** Young checkpoints in one tick. To look at one may mean to read all of it. */
const BATCH = 50
/** Those that are due, of which some may be on other machines. */
const DUE_MAX = 500

/**
 * Looks again at checkpoints that are young: what was seen when the sandbox was paused may have been on its way somewhere, and
 * never have arrived. The sooner that is known, the likelier somebody still remembers what was in it.
 */
export async function verifyAgain(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  const { fleet, backend, clock } = hold
  if (tick.row.failing_since !== null || tick.isOver()) return
  const young = await findYoung(deps.db, { fleet, backend, max: DUE_MAX, clock })
  const { pausing } = tick.backend
  // One that nobody needs may be gone.
  const isNeeded = ({ isRestedOn }: Young) => !isRestedOn || (pausing !== 'none' && pausing.needsCheckpoint)
  const here = young.filter((checkpoint) => tick.place.holds(checkpoint.provider_ref) && isNeeded(checkpoint))
  await forEach(here.slice(0, Math.max(0, Math.min(BATCH, tick.looksLeft))), async (checkpoint) => {
    if (!tick.isOver()) await verify(tick, checkpoint)
  })
}

async function verify(tick: Tick, { id, kind, provider_ref: ref, sandbox_id: sandboxId }: Young): Promise<void> {
  const { deps, backend, hold } = tick
  const { db, clock, housekeeping } = deps
  const checkpoints = kind === 'pause' ? backend.pausing : backend.snapshots
  const seen =
    checkpoints === 'none'
      ? undefined
      : await lookOnce(tick, ref, () =>
          tick.providerFor(sandboxId).ask('verify', (call) => checkpoints.verify(ref, call)),
        )
  if (seen?.is === 'ready') return recordVerified(db, id, clock)
  if (seen?.is !== 'missing' && seen?.is !== 'corrupt') return verifyLater(db, id, housekeeping.lookAgainMs, clock)
  const { fleet, backend: name, place: at } = hold
  const saw = `it is ${seen.is}: ${seen.why}`
  const first = { fleet, backend: name, place: at, kind: 'checkpoint_missing', ref, sandboxId } as const
  await suspect(tick, housekeeping.looksApartMs, [{ ...first, asked: `checkpoint ${ref}, which is young`, saw }])
  await verifyLater(db, id, null, clock) // from now on it is a finding, which has its own second look
}
