import type { Keep } from '../config.ts'
import { claimDue, type Due } from '../db/due.ts'
import { pruneEvents, pruneFindings, pruneKeys, pruneOutput } from '../db/prune.ts'
import type { Answer } from '../db/request.ts'
import { findPastDeadline } from '../db/streams.ts'
import { pruneTallies, TREND_KEEP_MS } from '../db/tallies.ts'
import { forEach, sideBySide } from '../each.ts'
import { done, type Outcome } from '../queues/outcome.ts'
import type { Cause } from '../sandbox/causes.ts'
import type { Options } from '../sandbox/judge.ts'
import { LIMIT_NAMES, LIMITS, type LimitName } from '../sandbox/limits.ts'
import { askFor } from './ask.ts'
import { checkInvariants } from './check.ts'
import { endPastDeadline } from './deadline.ts'
import { type RenewDeps, renewLeases } from './renew.ts'
import type { StreamDeps } from './stream-work.ts'

export type ReapDeps = StreamDeps & RenewDeps & { keep: Keep; destroyMax: number }

/**
 * One tick of the reaper: asks for what the limits of sandboxes say, gives those that are to run on the time for it at their
 * provider, ends executions whose deadline has passed without anybody noticing, and forgets what is old.
 *
 * Limits come first, because what they end needs no more time, and may take a half of the tick: no provider is asked for them. The
 * rest is done side by side, so that a provider that hangs, or a backlog, takes nobody else's time.
 *
 * Delivered twice, or on two workers at once: what is due is claimed, and each gets another part of it.
 * Crashed after a claim: the sandbox comes up again a few minutes later.
 * Nothing here believes a provider: it asks for operations, and those look before they act.
 */
export async function reap(deps: ReapDeps, { signal }: { signal: AbortSignal }): Promise<Outcome> {
  const beganAtMs = performance.now()
  const hasLasted = (ms: number) => signal.aborted || performance.now() - beganAtMs >= ms
  const { tickMs } = deps.housekeeping
  const asked = await askWhatIsDue(deps, () => hasLasted(tickMs / 2))
  const isOver = () => hasLasted(tickMs)
  const [renewed, executions, pruned] = await sideBySide([
    renewLeases(deps, signal, isOver),
    endExecutions(deps, signal, isOver),
    prune(deps, isOver),
    checkInvariants(deps, signal),
  ])
  const counts = { ...asked, renewed, executions, ...pruned }
  if (Object.values(counts).some((count) => count > 0)) deps.events.emit('reaper.ticked', counts)
  return done()
}

async function askWhatIsDue(deps: ReapDeps, isOver: () => boolean): Promise<Record<LimitName, number>> {
  const asked: Record<LimitName, number> = { hard: 0, retention: 0, idle: 0 }
  let destroyed = 0
  for (const limit of LIMIT_NAMES) {
    while (!isOver()) {
      const left = LIMITS[limit].does === 'destroy' ? deps.destroyMax - destroyed : Number.POSITIVE_INFINITY
      const max = Math.min(deps.housekeeping.reapBatch, left)
      if (max <= 0) break
      const due = await claim(deps, limit, max)
      await forEach(due, async (sandbox) => {
        const ends = LIMITS[limit].does === 'destroy' || !sandbox.can_pause
        if (isOver() || (ends && destroyed >= deps.destroyMax)) return // it comes up again
        if (ends) destroyed++
        const answer = await askOf(deps, sandbox)
        if (answer !== undefined) asked[limit]++
        // What has been asked for before, and cannot be done, is not in the way of what can.
        if (ends && answer !== 'work' && answer !== 'wait') destroyed--
      })
      // Fewer than asked for may only mean that somebody else has hold of the others, who may stop for the same reason.
      if (due.length === 0) break
    }
  }
  return asked
}

function claim({ db, fleet, clock, limits, housekeeping }: ReapDeps, limit: LimitName, max: number): Promise<Due[]> {
  return claimDue(db, { fleet, limit, limits, max, retryMs: housekeeping.reapAgainMs, clock })
}

/** Undefined when it was used meanwhile. */
async function askOf(
  deps: ReapDeps,
  { id, limit, since, limitMs, of, ifUnsupported }: Due,
): Promise<Answer | undefined> {
  const cause: Cause = { by: 'reaper', limit, since: since.toISOString(), limit_ms: limitMs, of }
  const kind = LIMITS[limit].does
  const options: Options = kind === 'pause' && ifUnsupported ? { if_unsupported: ifUnsupported } : {}
  const requested = await askFor(deps, { sandboxId: id, kind, options, cause, onlyIf: { limit, since } })
  if (!requested) return undefined
  deps.events.emit('reaper.asked', { sandboxId: id, operationId: requested.operation.id, kind, limit, of })
  return requested.answer
}

/** Those that whoever follows them should have ended long ago: there is nobody, or not for their queue. */
async function endExecutions(deps: ReapDeps, signal: AbortSignal, isOver: () => boolean): Promise<number> {
  const { db, fleet, clock, housekeeping } = deps
  const { deadlineMs: byMs, reapBatch: max } = housekeeping
  let ended = 0
  // Of each backend by itself: to stop an agent that hangs takes longer than a tick.
  const endAt = async (backend: string) => {
    const due = await findPastDeadline(db, { fleet, backend, byMs, max, clock })
    await forEach(due, async (id) => {
      if (!isOver() && (await endPastDeadline(deps, id, signal))) ended++
    })
  }
  await sideBySide([...deps.backends.keys()].map(endAt))
  return ended
}

async function prune({ db, fleet, clock, keep, housekeeping, events }: ReapDeps, isOver: () => boolean) {
  const { pruneBatch: max } = housekeeping
  const pruned = { events: 0, output: 0, keys: 0, findings: 0, tallies: 0 }
  const each = async (what: keyof typeof pruned, prune: typeof pruneEvents, olderThanMs: number) => {
    try {
      while (!isOver()) {
        const { forgotten, isEnd } = await prune(db, { fleet, olderThanMs, max, clock })
        pruned[what] += forgotten
        if (isEnd) break
      }
    } catch (error) {
      events.emit('reaper.prune_failed', { what, error }) // the others are old as well
    }
  }
  await sideBySide([
    each('events', pruneEvents, keep.eventsMs),
    each('output', pruneOutput, keep.outputMs),
    each('keys', pruneKeys, keep.keysMs),
    each('findings', pruneFindings, keep.eventsMs),
    each('tallies', pruneTallies, TREND_KEEP_MS),
  ])
  return pruned
}
