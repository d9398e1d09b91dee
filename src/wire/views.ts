import { printDuration } from '../duration.ts'
import type { Answer, ExecutionAnswer } from '../fleet/fleet.ts'
import type { Overdue, SweepReport } from '../fleet/sweep.ts'
import type { Operation, Sandbox } from '../fleet/views.ts'
import type { Why } from '../fleet/why.ts'

/** Where the wire says something in other words than the library does. All else is the same but for the way it is written. */

const asText = (ms: number | null): string | null => (ms === null ? null : printDuration(ms))

export function sandboxView({ ttl, operationId, ...rest }: Sandbox) {
  const { idleMs, hardMs, retentionMs, ifUnsupported } = ttl
  const limits = { idle: asText(idleMs), hard: asText(hardMs), retention: asText(retentionMs), ifUnsupported }
  return { ...rest, ttl: limits, operation: operationId }
}

export function operationView({ checkpointId, ...rest }: Operation) {
  return { ...rest, checkpoint: checkpointId }
}

export function answerView({ operation, sandbox }: Answer) {
  return { operation: operationView(operation), sandbox: sandboxView(sandbox) }
}

export function executionAnswerView({ execution, sandbox }: ExecutionAnswer) {
  return { execution, sandbox: sandboxView(sandbox) }
}

export function whyView({ sandboxId, answer, story, isComplete }: Why) {
  return { sandboxId, answer, story: story.map(({ at, text }) => ({ at, text })), isComplete }
}

function overdueView({ limitMs, ...rest }: Overdue) {
  return { ...rest, after: printDuration(limitMs) }
}

export function sweepView({ overdue, ...rest }: SweepReport) {
  return { ...rest, overdue: overdue.map(overdueView) }
}
