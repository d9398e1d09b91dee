import type { Checkpoints } from '../backends/backend.ts'
import { findYoung, passOver, recordVerified, verifyLater, type Young } from '../db/checkpoints.ts'
import { forEach } from '../each.ts'
import { suspect } from './round.ts'
import { lookOnce, type Tick } from './tick.ts'

/**
 * Looks again at checkpoints that are young: what was seen when the sandbox was paused may have been on its way somewhere, and
 * never have arrived. The sooner that is known, the likelier somebody still remembers what was in it.
 */
export async function verifyAgain(tick: Tick): Promise<void> {
  if (tick.row.failing_since !== null || tick.isOver()) return
  const most = Math.max(0, Math.min(tick.deps.housekeeping.verifyBatch, tick.looksLeft))
  await forEach(await findHere(tick, most), async (checkpoint) => {
    if (!tick.isOver()) await verify(tick, checkpoint)
  })
}

/** The first that are due, and are not on other machines. Those that need no look are passed over, and are in nobody's way again. */
async function findHere(tick: Tick, most: number): Promise<Young[]> {
  const { deps, hold, place } = tick
  const { fleet, backend, clock } = hold
  const { youngBatch: max, youngPages } = deps.housekeeping
  const here: Young[] = []
  let after: Young | undefined
  for (let pages = 0; here.length < most && pages < youngPages && !tick.isOver(); pages++) {
    const due = await findYoung(deps.db, { fleet, backend, after, max, clock })
    const { yes = [], no = [] } = Object.groupBy(due, (young) => (isNeeded(tick, young) ? 'yes' : 'no'))
    if (no.length > 0) await passOver(deps.db, no, clock)
    here.push(...yes.filter(({ provider_ref }) => place.holds(provider_ref)))
    after = due.at(-1)
    if (due.length < max) break
  }
  return here.slice(0, most)
}

/** What is woken without its checkpoint may have lost it. And what cannot be asked for any more tells nothing. */
function isNeeded(tick: Tick, young: Young): boolean {
  const { pausing } = tick.backend
  if (checkpointsOf(tick, young) === 'none') return false
  return !young.isRestedOn || (pausing !== 'none' && pausing.needsCheckpoint)
}

function checkpointsOf({ backend }: Tick, { kind }: Young): Checkpoints | 'none' {
  return kind === 'pause' ? backend.pausing : backend.snapshots
}

async function verify(tick: Tick, young: Young): Promise<void> {
  const { id, provider_ref: ref, sandbox_id: sandboxId } = young
  const { deps, hold } = tick
  const { db, clock, housekeeping } = deps
  const checkpoints = checkpointsOf(tick, young)
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
