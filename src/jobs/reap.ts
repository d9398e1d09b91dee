import { claimDue, type Due } from '../db/due.ts'
import { pruneEvents, pruneFindings, pruneKeys, pruneOutput } from '../db/prune.ts'
import type { Answer } from '../db/request.ts'
import { findPastDeadline } from '../db/streams.ts'
import { pruneTallies, TREND_KEEP_MS } from '../db/tallies.ts'
import { forEach } from '../each.ts'
import { done, type Outcome } from '../queues/outcome.ts'
import type { Cause } from '../sandbox/causes.ts'
import type { Options } from '../sandbox/judge.ts'
import { LIMIT_NAMES, LIMITS, type LimitName, type Limits } from '../sandbox/limits.ts'
import { askFor } from './ask.ts'
import { checkInvariants } from './check.ts'
import { endPastDeadline } from './deadline.ts'
import type { Housekeeping, Keep } from './housekeeping.ts'
import { renewLeases } from './renew.ts'
import type { StreamDeps } from './stream-work.ts'

export type ReapDeps = StreamDeps & {
  /** The fleet's, for sandboxes that have none of their own. */
  limits: Limits
  keep: Keep
  destroyMax: number
  housekeeping: Housekeeping
}

/**
 * One tick of the reaper: asks for what the limits of sandboxes say, gives those that are to run on the time for it at their
 * provider, ends executions whose deadline has passed without anybody noticing, and forgets what is old.
 *
 * Delivered twice, or on two workers at once: what is due is claimed, and each gets another part of it.
 * Crashed after a claim: the sandbox comes up again a few minutes later.
 * Nothing here believes a provider: it asks for operations, and those look before they act.
 */
export async function reap(deps: ReapDeps, { signal }: { signal: AbortSignal }): Promise<Outcome> {
  const { housekeeping, events } = deps
  const untilMs = performance.now() + housekeeping.tickMs
  const isOver = () => signal.aborted || performance.now() >= untilMs
  const asked: Record<LimitName, number> = { hard: 0, retention: 0, idle: 0 }
  let destroyed = 0
  for (const limit of LIMIT_NAMES) {
    while (!isOver()) {
      const left = LIMITS[limit].does === 'destroy' ? deps.destroyMax - destroyed : Number.POSITIVE_INFINITY
      const max = Math.min(housekeeping.reapBatch, left)
      if (max <= 0) break
      const due = await claim(deps, limit, max)
      await forEach(due, async (sandbox) => {
        const ends = LIMITS[limit].does === 'destroy' || !sandbox.can_pause
        if (ends && destroyed >= deps.destroyMax) return // it comes up again
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
  const renewed = await renewLeases(deps, signal, isOver)
  const ended = await endExecutions(deps, signal, isOver)
  await checkInvariants(deps, signal)
  const pruned = await prune(deps, isOver)
  const counts = { ...asked, renewed, executions: ended, ...pruned }
  if (Object.values(counts).some((count) => count > 0)) events.emit('reaper.ticked', counts)
  return done()
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
  const backends = [...deps.backends.keys()]
  const { deadlineMs: byMs, reapBatch: max } = housekeeping
  let ended = 0
  for (const id of isOver() ? [] : await findPastDeadline(db, { fleet, backends, byMs, max, clock })) {
    if (isOver()) break
    if (await endPastDeadline(deps, id, signal)) ended++
  }
  return ended
}

async function prune({ db, fleet, clock, keep, housekeeping, events }: ReapDeps, isOver: () => boolean) {
  const { pruneBatch: max } = housekeeping
  const pruned = { events: 0, output: 0, keys: 0, findings: 0, tallies: 0 }
  const each = async (what: keyof typeof pruned, prune: typeof pruneEvents, olderThanMs: number) => {
    try {
      while (!isOver()) {
        const count = await prune(db, { fleet, olderThanMs, max, clock })
        pruned[what] += count
        if (count < max / 2) break // some of a page may be kept
      }
    } catch (error) {
      events.emit('reaper.prune_failed', { what, error }) // the others are old as well
    }
  }
  await each('events', pruneEvents, keep.eventsMs)
  await each('output', pruneOutput, keep.outputMs)
  await each('keys', pruneKeys, keep.keysMs)
  await each('findings', pruneFindings, keep.eventsMs)
  await each('tallies', pruneTallies, TREND_KEEP_MS)
  return pruned
}
