import type { Checkpoints } from '../backends/backend.ts'
import { findByRef, recordDeletedByRef, recordMissing } from '../db/checkpoints.ts'
import { dismiss, dueFindings, postpone, recordAct, recordLook } from '../db/findings.ts'
import { findSandbox } from '../db/sandboxes.ts'
import type { FindingRow, SweepEventName } from '../db/schema.ts'
import { findUnownedCheckpoints, findUnownedInstances } from '../db/sweeps.ts'
import { forEach } from '../each.ts'
import type { Cause } from '../sandbox/causes.ts'
import type { FindingKind } from '../sandbox/findings.ts'
import { askFor } from './ask.ts'
import { endRef } from './end.ts'
import { lookOnce, type Tick } from './tick.ts'

/** Findings that are looked at again in one go. */
const BATCH = 100

type Acted = { operationId?: string }

/** What a second look showed: it is still so, and this is what to do; it is not so; or nobody could say. */
type Verdict =
  | { is: 'so'; asked: string; saw: string; act(cause: Cause): Promise<Acted | undefined> }
  | { is: 'not so' }
  | { is: 'unknown' }

/**
 * Second looks, when they are due: at the thing itself, by its name, some time after the first. What is still not as it should be is
 * seen to; what is as it should be is dismissed. Nothing is looked at while the provider fails or is not believed, nor before a whole
 * round was believed since the first look.
 */
export async function lookAgain(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  const { fleet, backend, place, clock } = hold
  const { failing_since, stopped_at, ended_at: believedAt } = tick.row
  if (failing_since !== null || stopped_at !== null || believedAt === null) return
  while (tick.looksLeft > 0 && !tick.isOver()) {
    const max = Math.min(BATCH, tick.looksLeft)
    const due = await dueFindings(deps.db, { fleet, backend, place, believedAt, max, clock })
    await forEach(due, async (finding) => {
      if (!tick.isOver() && !isCapped(tick)) await decide(tick, finding)
    })
    if (isCapped(tick) && due.length > 0) deps.events.emit('sweep.capped', { backend, place, max: deps.destroyMax })
    if (due.length < max || isCapped(tick)) return
  }
}

function isCapped({ mayAct, actsLeft }: Tick): boolean {
  return mayAct && actsLeft <= 0
}

async function decide(tick: Tick, finding: FindingRow): Promise<void> {
  const { deps, hold } = tick
  const { db, clock, events, housekeeping } = deps
  const { kind, ref, sandbox_id: sandboxId } = finding
  const about = { backend: hold.backend, place: hold.place, kind, ref, sandboxId }
  const verdict = await VERDICTS[kind](tick, finding)
  if (verdict.is === 'unknown') return postpone(db, finding, housekeeping.lookAgainMs, clock)
  if (verdict.is === 'not so') {
    await dismiss(db, finding)
    events.emit('sweep.dismissed', about)
    return
  }
  const { asked, saw } = verdict
  // Who only looks may look for weeks: what was seen twice need not be written down a third time.
  const looks =
    finding.looks.length > 1 && !tick.mayAct
      ? finding.looks
      : await recordLook(db, finding, { place: hold.place, asked, saw }, clock)
  if (!tick.mayAct) return postpone(db, finding, housekeeping.lookAgainMs, clock)
  if (--tick.actsLeft < 0) return // somebody else has used up the last one
  const acted = await verdict.act({ by: 'sweeper', found: kind, ref, looks })
  if (!acted) return postpone(db, finding, housekeeping.lookAgainMs, clock)
  await recordAct(db, finding, { ...acted, event: EVENTS[kind], clock })
  events.emit('sweep.acted', { ...about, saw, ...acted })
}

/** What history says of it, besides what its operation does. */
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
    if (seen.is !== 'absent' && seen.is !== 'lost') return { is: 'not so' }
    return {
      is: 'so',
      asked: ref,
      saw: seen.is === 'absent' ? 'there is no such instance' : `it is lost: ${seen.why}`,
      act: (cause) => endSandbox(tick, id, state, cause),
    }
  },

  async checkpoint_missing(tick, { ref, sandbox_id: sandboxId }) {
    const { deps, backend } = tick
    const kept = await findByRef(deps.db, { fleet: deps.fleet, sandboxId, ref })
    const checkpoints = kept?.kind === 'snapshot' ? backend.snapshots : backend.pausing
    if (!kept?.isAtRest || checkpoints === 'none') return { is: 'not so' }
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
    if (!labelled.some((instance) => instance.ref === ref)) return { is: 'not so' }
    return {
      is: 'so',
      asked: `what carries the label of fleet ${hold.fleet} and sandbox ${sandboxId}`,
      saw: `${ref} is there, and ${unowned.why}`,
      act: () =>
        lookOnce(tick, ref, async () => {
          await endRef({ backend, provider, name: ref }, ref)
          return {}
        }),
    }
  },

  async checkpoint_unowned(tick, { ref, sandbox_id: sandboxId, checkpoint }) {
    const { deps, backend, hold } = tick
    if (await isInFlight(tick, sandboxId)) return { is: 'unknown' }
    const { remainsMs } = deps.housekeeping
    const kept = { retentionMs: deps.limits.retentionMs, remainsMs }
    const [unowned] = await findUnownedCheckpoints(deps.db, hold, [{ ref, sandboxId }], kept)
    const checkpoints = checkpoint === 'snapshot' ? backend.snapshots : backend.pausing
    if (!unowned || checkpoints === 'none') return { is: 'not so' }
    const seen = await verify(tick, sandboxId, checkpoints, ref)
    if (!seen || seen.is === 'pending') return { is: 'unknown' }
    if (seen.is === 'missing') return { is: 'not so' }
    return {
      is: 'so',
      asked: `checkpoint ${ref}`,
      saw: `it is ${seen.is}, and ${unowned.why}`,
      async act() {
        const provider = tick.providerFor(sandboxId)
        const discard = () => provider.ask('discard', (call) => checkpoints.discard(ref, call)).then(() => true)
        if (!(await lookOnce(tick, ref, discard))) return undefined
        await recordDeletedByRef(deps.db, { sandboxId, ref })
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
