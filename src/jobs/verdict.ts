import type { Checkpoints } from '../backends/backend.ts'
import { findByRef, recordDeletedByRef, recordMissing } from '../db/checkpoints.ts'
import { dismiss, dueFindings, postpone, recordAct, recordActing, recordLook } from '../db/findings.ts'
import { findSandbox } from '../db/sandboxes.ts'
import type { FindingRow, SweepEventName } from '../db/schema.ts'
import { findUnownedCheckpoints, findUnownedInstances, renew } from '../db/sweeps.ts'
import { forEach } from '../each.ts'
import type { Cause } from '../sandbox/causes.ts'
import type { FindingKind } from '../sandbox/findings.ts'
import { askFor } from './ask.ts'
import { endRef } from './end.ts'
import { whyMissing } from './look.ts'
import { lookOnce, type Tick } from './tick.ts'

type Acted = { operationId?: string }

/** What a second look showed. */
type Verdict =
  /** It is still so, and this is what to do about it. Undefined when that brought no answer. */
  | { is: 'so'; asked: string; saw: string; act(cause: Cause): Promise<Acted | undefined> }
  /** What should not be there is not there any more. */
  | { is: 'over' }
  | { is: 'not so' }
  /** Nobody could say. */
  | { is: 'unknown' }

/**
 * Second looks, when they are due: at the thing itself, by its name, some time after the first. What is still not as it should be is
 * seen to, if a whole round was believed since the first look; what is as it should be is dismissed. While the provider fails nothing
 * is looked at, and while it is not believed nothing is done.
 */
export async function lookAgain(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  const { fleet, backend, place, clock } = hold
  if (tick.row.failing_since !== null) return
  while (tick.looksLeft > 0 && !tick.isOver()) {
    const max = Math.min(deps.housekeeping.findingBatch, tick.looksLeft)
    const due = await dueFindings(deps.db, { fleet, backend, place, max, clock })
    await forEach(due, async (finding) => {
      if (!tick.isOver() && !isCapped(tick)) await decide(tick, finding)
    })
    if (isCapped(tick) && due.length > 0) deps.events.emit('sweep.capped', { backend, place, max: deps.destroyMax })
    if (due.length < max || isCapped(tick) || !tick.mayAct) return
  }
}

function isCapped({ mayAct, actsLeft }: Tick): boolean {
  return mayAct && actsLeft <= 0
}

function mayActOn({ mayAct, row }: Tick, { first_seen_at }: FindingRow): boolean {
  const { failing_since, stopped_at, ended_at } = row
  return mayAct && failing_since === null && stopped_at === null && ended_at !== null && first_seen_at <= ended_at
}

async function decide(tick: Tick, finding: FindingRow): Promise<void> {
  const { deps, hold } = tick
  const { db, clock, events, housekeeping } = deps
  const { kind, ref, sandbox_id: sandboxId } = finding
  const about = { backend: hold.backend, place: hold.place, kind, ref, sandboxId }
  const later = () => postpone(db, finding, housekeeping.lookAgainMs, clock)
  const verdict = await VERDICTS[kind](tick, finding)
  if (verdict.is === 'unknown') return later()
  if (verdict.is === 'over' && finding.acting_at !== null) {
    // Its answer was lost, or whoever did it has died.
    if (kind === 'checkpoint_unowned') await recordDeletedByRef(db, finding)
    return recordAct(db, finding, { event: EVENTS[kind], clock })
  }
  if (verdict.is !== 'so') {
    await dismiss(db, finding)
    events.emit('sweep.dismissed', about)
    return
  }
  const { asked, saw } = verdict
  const seen = { place: hold.place, asked, saw }
  // Who only looks need not write down a third time what was seen twice.
  const isKept = finding.looks.length < (mayActOn(tick, finding) ? housekeeping.looksKept : 2)
  const looks = isKept ? await recordLook(db, finding, seen, clock) : finding.looks
  // A dry run moves nothing: whoever may act is not to wait for it.
  if (!mayActOn(tick, finding)) return deps.mayAct && !tick.mayAct ? undefined : later()
  tick.row = await renew(db, hold) // by who has lost the place, and while it is stopped, nothing is done
  if (!mayActOn(tick, finding) || --tick.actsLeft < 0) return
  await recordActing(db, finding, clock)
  const acted = await verdict.act({ by: 'sweeper', found: kind, ref, looks })
  if (!acted) return later()
  await recordAct(db, finding, { ...acted, event: acted.operationId ? undefined : EVENTS[kind], clock })
  events.emit('sweep.acted', { ...about, saw, ...acted })
}

/** What history says of it, where no operation does. */
const EVENTS: Record<FindingKind, SweepEventName | undefined> = {
  instance_missing: undefined,
  checkpoint_missing: 'checkpoint_lost',
  instance_unowned: 'instance_swept',
  checkpoint_unowned: 'checkpoint_swept',
}

const VERDICTS: Record<FindingKind, (tick: Tick, finding: FindingRow) => Promise<Verdict>> = {
  async instance_missing(tick, { ref, sandbox_id: id }) {
    const { deps, backend } = tick
    const found = await findSandbox(deps.db, { fleet: deps.fleet, id })
    const state = found?.sandbox.provider_ref === ref ? found.sandbox.state : undefined
    if (state !== 'running' && state !== 'suspended') return { is: 'not so' }
    const seen = await lookOnce(tick, ref, () => tick.providerFor(id).ask('look', (call) => backend.look(ref, call)))
    if (!seen || seen.is === 'changing') return { is: 'unknown' }
    const saw = whyMissing(seen)
    if (saw === undefined) return { is: 'not so' }
    return {
      is: 'so',
      asked: ref,
      saw,
      act: (cause) => endSandbox(tick, id, state, cause),
    }
  },

  async checkpoint_missing(tick, { ref, sandbox_id: sandboxId }) {
    const { deps, backend } = tick
    const kept = await findByRef(deps.db, { fleet: deps.fleet, sandboxId, ref })
    const checkpoints = kept?.kind === 'snapshot' ? backend.snapshots : backend.pausing
    if (!kept || checkpoints === 'none') return { is: 'not so' }
    if (!kept.isAtRest) return { is: 'unknown' }
    const seen = await verify(tick, sandboxId, checkpoints, ref)
    if (!seen || seen.is === 'pending') return { is: 'unknown' }
    if (seen.is === 'ready') return { is: 'not so' }
    return {
      is: 'so',
      asked: `checkpoint ${ref}`,
      saw: `it is ${seen.is}: ${seen.why}`,
      async act(cause) {
        if (kept.isRestedOn) return endSandbox(tick, sandboxId, 'suspended', cause)
        await recordMissing(deps.db, kept)
        return {}
      },
    }
  },

  async instance_unowned(tick, { ref, sandbox_id: sandboxId }) {
    const { deps, backend, hold } = tick
    if (await isInFlight(tick, sandboxId)) return { is: 'unknown' }
    const [unowned] = await findUnownedInstances(deps.db, hold, [{ ref, sandboxId }])
    if (!unowned) return { is: 'not so' }
    const provider = tick.providerFor(sandboxId)
    const labelled = await lookOnce(tick, ref, () => provider.ask('find', (call) => backend.find(sandboxId, call)))
    if (!labelled) return { is: 'unknown' }
    if (!labelled.some((instance) => instance.ref === ref)) return { is: 'over' }
    return {
      is: 'so',
      asked: `what carries the label of fleet ${hold.fleet} and sandbox ${sandboxId}`,
      saw: `${ref} is there, and ${unowned.why}`,
      act: () =>
        lookOnce(tick, ref, async () => {
          const isUnowned = async () => (await findUnownedInstances(deps.db, hold, [{ ref, sandboxId }])).length > 0
          return (await endRef({ backend, provider, name: ref }, ref, isUnowned)) === 'ended' ? {} : undefined
        }),
    }
  },

  async checkpoint_unowned(tick, { ref, sandbox_id: sandboxId, checkpoint }) {
    const { deps, backend, hold } = tick
    if (await isInFlight(tick, sandboxId)) return { is: 'unknown' }
    const { remainsMs } = deps.housekeeping
    const kept = { retentionMs: deps.limits.retentionMs, remainsMs }
    const look = () => findUnownedCheckpoints(deps.db, hold, [{ ref, sandboxId }], kept)
    const [unowned] = await look()
    const checkpoints = checkpoint === 'snapshot' ? backend.snapshots : backend.pausing
    if (!unowned || checkpoints === 'none') return { is: 'not so' }
    const seen = await verify(tick, sandboxId, checkpoints, ref)
    if (!seen || seen.is === 'pending') return { is: 'unknown' }
    if (seen.is === 'missing') return { is: 'over' }
    return {
      is: 'so',
      asked: `checkpoint ${ref}`,
      saw: `it is ${seen.is}, and ${unowned.why}`,
      async act() {
        if ((await look()).length === 0) return undefined // the second look may have taken minutes
        const provider = tick.providerFor(sandboxId)
        const discard = () => provider.ask('discard', (call) => checkpoints.discard(ref, call)).then(() => true)
        if (!(await lookOnce(tick, ref, discard))) return undefined
        await recordDeletedByRef(deps.db, { ...hold, ref })
        return {}
      },
    }
  },
}

/** Then it may be about to take what nobody owns, or to end it: that is known when it has come to rest. */
async function isInFlight({ deps }: Tick, id: string): Promise<boolean> {
  const found = await findSandbox(deps.db, { fleet: deps.fleet, id })
  return found !== undefined && found.sandbox.operation_id !== null
}

function verify(tick: Tick, sandboxId: string, checkpoints: Checkpoints, ref: string) {
  const provider = tick.providerFor(sandboxId)
  return lookOnce(tick, ref, () => provider.ask('verify', (call) => checkpoints.verify(ref, call)))
}

/** By an operation like any other, which looks a third time before it ends anything. On one that sleeps, a kill would do nothing. */
async function endSandbox(
  tick: Tick,
  sandboxId: string,
  state: 'running' | 'suspended',
  cause: Cause,
): Promise<Acted | undefined> {
  const kind = state === 'running' ? 'kill' : 'destroy'
  const requested = await askFor(tick.deps, { sandboxId, kind, options: { only: 'lost' }, cause })
  return requested && { operationId: requested.operation.id }
}
