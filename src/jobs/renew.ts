import type { Backend, Lease } from '../backends/backend.ts'
import { claimLeases, type Leased, recordLease } from '../db/leases.ts'
import { forEach } from '../each.ts'
import { askFor } from './ask.ts'
import { LEASE_SLACK_MS, leaseMs } from './lease.ts'
import { PATIENCE } from './patience.ts'
import { Provider } from './provider.ts'
import type { ReapDeps } from './reap.ts'

/**
 * Renews the time-to-live of what is to run on, when half of it is over: how long a sandbox lives is for its limits to say. What a
 * provider does by itself at the end is for the case that no worker is left.
 *
 * One that it has put to sleep meanwhile is written down by a pause, which only looks.
 */
export async function renewLeases(deps: ReapDeps, signal: AbortSignal, isOver: () => boolean): Promise<number> {
  // All at once: a provider that does not answer must not cost the others their time.
  const counts = await Promise.all([...deps.backends.values()].map((backend) => renewAt(deps, backend, signal, isOver)))
  return counts.reduce((sum, count) => sum + count, 0)
}

async function renewAt(deps: ReapDeps, backend: Backend, signal: AbortSignal, isOver: () => boolean): Promise<number> {
  const { db, fleet, clock, patience = PATIENCE, housekeeping } = deps
  const { lease, name } = backend
  const { renewBatch: max, reapAgainMs: retryMs } = housekeeping
  let renewed = 0
  while (lease !== 'none' && !isOver()) {
    const due = await claimLeases(db, { fleet, backend: name, withinMs: patience.leaseMs / 2, max, retryMs, clock })
    await forEach(due, async (sandbox) => {
      const isRenewed = renew(deps, backend, lease, sandbox, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        deps.events.emit('reaper.not_renewed', { sandboxId: sandbox.id, endsAt: sandbox.endsAt, error })
        return false
      })
      if (await isRenewed) renewed++
    })
    if (due.length < max) break
  }
  return renewed
}

async function renew(
  deps: ReapDeps,
  backend: Backend,
  lease: Lease,
  sandbox: Leased,
  signal: AbortSignal,
): Promise<boolean> {
  const { patience = PATIENCE, events, limits, db } = deps
  const { id, ref } = sandbox
  const asker = { sweepOf: 'leases' }
  const provider = new Provider({ backend: backend.name, asker, sandboxId: id, patience, signal, events })
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
