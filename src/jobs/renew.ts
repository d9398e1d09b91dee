import type { Backend, Lease } from '../backends/backend.ts'
import { claimLeases, type Leased, recordLease } from '../db/leases.ts'
import { forEach, sideBySide } from '../each.ts'
import { isSandmanError } from '../errors.ts'
import type { Limits } from '../sandbox/limits.ts'
import { askFor } from './ask.ts'
import type { Housekeeping } from './housekeeping.ts'
import { LEASE_SLACK_MS, leaseMs } from './lease.ts'
import type { JobDeps } from './operation.ts'
import { PATIENCE } from './patience.ts'
import { isAway } from './probe.ts'
import { Provider } from './provider.ts'

export type RenewDeps = JobDeps & { limits: Limits; housekeeping: Housekeeping }

/**
 * Renews the time-to-live of what is to run on, when half of it is over: how long a sandbox lives is for its limits to say. What a
 * provider does by itself at the end is for the case that no worker is left.
 *
 * One that it has put to sleep meanwhile is written down by a pause, which only looks.
 */
export async function renewLeases(deps: RenewDeps, signal: AbortSignal, isOver: () => boolean): Promise<number> {
  // All at once: a provider that does not answer must not cost the others their time.
  const counts = await sideBySide([...deps.backends.values()].map((backend) => renewAt(deps, backend, signal, isOver)))
  return counts.reduce((sum, count) => sum + count, 0)
}

async function renewAt(deps: RenewDeps, backend: Backend, signal: AbortSignal, isOver: () => boolean): Promise<number> {
  const { db, fleet, clock, patience = PATIENCE, housekeeping, events } = deps
  const { lease, name } = backend
  const { renewBatch: max, reapAgainMs: retryMs } = housekeeping
  let renewed = 0
  let failedInARow = 0
  let isSilent = false
  while (lease !== 'none' && !isSilent && !isOver()) {
    const due = await claimLeases(db, { fleet, backend: name, withinMs: patience.leaseMs / 2, max, retryMs, clock })
    await forEach(due, async (sandbox) => {
      if (isSilent) return
      try {
        if (await renew(deps, backend, lease, sandbox, signal)) renewed++
        failedInARow = 0
      } catch (error) {
        signal.throwIfAborted()
        events.emit('reaper.not_renewed', { sandboxId: sandbox.id, endsAt: sandbox.endsAt, error })
        if (++failedInARow < housekeeping.failuresMax) return
        failedInARow = 0
        // One that hangs takes a part of the tick with every call: it is not asked any more, whatever it would say of others.
        const hangs = isSandmanError(error, 'deadline_exceeded')
        if (hangs || (await isAway(backend, providerFor(deps, name, 'everything', signal), signal))) isSilent = true
      }
    })
    if (due.length < max) break
  }
  return renewed
}

function providerFor(
  { patience = PATIENCE, events }: RenewDeps,
  backend: string,
  sandboxId: string,
  signal: AbortSignal,
): Provider {
  return new Provider({ backend, asker: { sweepOf: 'leases' }, sandboxId, patience, signal, events })
}

async function renew(
  deps: RenewDeps,
  backend: Backend,
  lease: Lease,
  sandbox: Leased,
  signal: AbortSignal,
): Promise<boolean> {
  const { patience = PATIENCE, limits, db } = deps
  const { id, ref } = sandbox
  const provider = providerFor(deps, backend.name, id, signal)
  const look = () => provider.ask('look', (call) => backend.look(ref, call))
  const seen = await look()
  if (seen.is === 'suspended' && sandbox.can_pause) {
    const cause = { by: 'lease', ends_at: sandbox.endsAt.toISOString() } as const
    await askFor(deps, { sandboxId: id, kind: 'pause', options: { if_busy: 'ignore', only: 'asleep' }, cause })
  }
  if (seen.is !== 'running') return false // what is lost the sweeper finds
  // As it runs, whoever has started it: work may go on in it that nobody has written down as another incarnation's.
  const { incarnation } = seen
  const ttlMs = leaseMs(patience.leaseMs, sandbox.created_at, sandbox.hard_ttl_ms ?? limits.hardMs)
  // Somebody has given it time, or there is none left to give: it ends with its hard limit.
  const isLong = seen.endsAt !== undefined && seen.endsAt.getTime() > Date.now() + ttlMs - LEASE_SLACK_MS
  if (!isLong) await provider.ask('lease', (call) => lease.set({ ref, incarnation }, ttlMs, call))
  const after = isLong ? seen : await look()
  if (after.is !== 'running' || after.incarnation !== incarnation || after.endsAt === undefined) return false
  await recordLease(db, sandbox, { incarnation, endsAt: after.endsAt })
  return !isLong
}
