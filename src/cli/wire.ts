import type { Answer, ExecutionAnswer } from '../fleet/fleet.ts'
import type { SweepReport } from '../fleet/sweep.ts'
import type { Operation, Sandbox } from '../fleet/views.ts'

/** Where the API says something in other words than the library does: what programs read is the same from both. */

export function wireSandbox({ ttl, operationId, ...rest }: Sandbox) {
  const { idleMs, hardMs, retentionMs, ifUnsupported } = ttl
  const limits = { idle: asText(idleMs), hard: asText(hardMs), retention: asText(retentionMs), ifUnsupported }
  return { ...rest, ttl: limits, operation: operationId }
}

export function wireOperation({ checkpointId, ...rest }: Operation) {
  return { ...rest, checkpoint: checkpointId }
}

export function wireAnswer({ operation, sandbox }: Answer) {
  return { operation: wireOperation(operation), sandbox: wireSandbox(sandbox) }
}

export function wireExecutionAnswer({ execution, sandbox }: ExecutionAnswer) {
  return { execution, sandbox: wireSandbox(sandbox) }
}

export function wireReport({ overdue, ...rest }: SweepReport) {
  return { ...rest, overdue: overdue.map(({ limitMs, ...each }) => ({ ...each, after: asText(limitMs) })) }
}

const UNITS = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** As a request would say it, and exact. */
function asText(ms: number | null): string | null {
  if (ms === null) return null
  const [unit, size] = UNITS.find(([, each]) => ms > 0 && ms % each === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
