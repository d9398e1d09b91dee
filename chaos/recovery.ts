import type { OperationRow } from '../src/db/schema.ts'
import type { Told } from './diary.ts'
import type { Inflicted } from './inflict.ts'
import type { FaultKind } from './plan.ts'

/** In milliseconds. Where nothing was measured, and where a figure would say more than was measured, there is none. */
export type Recovery = {
  faults: number
  measured: number
  p50Ms: number | null
  p99Ms: number | null
  maxMs: number | null
}

/** The 99th of a hundred is the first of which that can be said; with fewer it is the longest. */
const P99_OF_LEAST = 100

type Seen = { operations: readonly (OperationRow & { backend: string })[]; told: readonly Told[] }

/**
 * How long after each fault the fleet was at work again, from the moment of the fault:
 *
 * - a worker that was killed, or stopped: until the last of the operations that it held had settled; none, no figure;
 * - a web process: until a request that was sent to it since then was accepted by it;
 * - the provider: until the first operation on it that was asked for since then had succeeded by work;
 * - all others: the same, on any backend.
 */
export function recoveryOf(inflicted: readonly Inflicted[], seen: Seen): Partial<Record<FaultKind | 'all', Recovery>> {
  const byKind = new Map<FaultKind, { faults: number; times: number[] }>()
  for (const fault of inflicted) {
    const entry = byKind.get(fault.kind) ?? { faults: 0, times: [] }
    byKind.set(fault.kind, entry)
    entry.faults++
    const recoveredAt = recoveredAfter(fault, seen)
    // What never settled is stuck, and counted as that.
    if (recoveredAt !== undefined && Number.isFinite(recoveredAt)) entry.times.push(recoveredAt - fault.at)
  }
  const entries = [...byKind].sort(([a], [b]) => (a < b ? -1 : 1))
  const all = { faults: inflicted.length, times: entries.flatMap(([, { times }]) => times) }
  return Object.fromEntries([...entries, ['all', all] as const].map(([kind, entry]) => [kind, summary(entry)]))
}

function recoveredAfter(fault: Inflicted, { operations, told }: Seen): number | undefined {
  const { kind, at, held, web } = fault
  if (kind === 'worker_killed' || kind === 'worker_stopped') {
    const settled = operations
      .filter(({ id }) => held.includes(id))
      .map(({ settled_at }) => settled_at?.getTime() ?? Number.POSITIVE_INFINITY)
      .filter((time) => time >= at) // and not in the moment between the question and the signal
    return settled.length > 0 ? Math.max(...settled) : undefined
  }
  if (kind === 'web_killed')
    return first(told.filter((one) => one.web === web && one.sentAt >= at && one.status < 300).map(answeredAt))
  const isMeant = ({ backend, created_at, outcome, status }: (typeof operations)[number]) =>
    created_at.getTime() >= at &&
    status === 'succeeded' &&
    outcome === 'done' &&
    (kind !== 'provider_away' || backend === 'e2b')
  return first(operations.filter(isMeant).map(({ settled_at }) => settled_at?.getTime() ?? Number.POSITIVE_INFINITY))
}

const answeredAt = (told: Told) => told.answeredAt

function first(times: number[]): number | undefined {
  return times.length > 0 ? Math.min(...times) : undefined
}

function summary({ faults, times }: { faults: number; times: number[] }): Recovery {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => {
    const ms = sorted[Math.ceil(share * sorted.length) - 1]
    return ms === undefined ? null : Math.round(ms)
  }
  const measured = sorted.length
  return { faults, measured, p50Ms: at(0.5), p99Ms: measured < P99_OF_LEAST ? null : at(0.99), maxMs: at(1) }
}
