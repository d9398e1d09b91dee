import type { EventName } from '../events.ts'
import type { Happening } from './tally.ts'

type Fields = Record<string, unknown>
type Rule = (fields: Fields) => Happening[]

/** What each event is counted as. */
export const COUNTING: Partial<Record<EventName, Rule>> = {
  'operation.settled': ({ kind, backend, status, outcome, errorType, durationMs, state, from, workedMs }) => [
    operation({ kind, backend, outcome: outcome ?? status, errorType }),
    { name: 'sandman_operation_duration_seconds', labels: { kind, backend }, value: seconds(durationMs) },
    ...(from === state ? [] : [left({ state: from, backend, ms: workedMs })]),
  ],
  'operation.answered': ({ kind, backend, outcome, errorType }) => [operation({ kind, backend, outcome, errorType })],
  'operation.accepted': ({ backend, from, restedMs }) => (from ? [left({ state: from, backend, ms: restedMs })] : []),
  'operation.undecided': ({ kind, backend }) => [
    { name: 'sandman_operations_undecided_total', labels: { kind, backend } },
  ],
  'operation.rung_again': () => [{ name: 'sandman_operations_rung_again_total' }],
  'execution.rung_again': ({ executionIds }) => [
    { name: 'sandman_operations_rung_again_total', value: (executionIds as string[]).length },
  ],
  'execution.ended': ({ status, reason, backend, lagMs }) => [
    execution({ status, reason, backend }),
    ...(lagMs === undefined
      ? []
      : [{ name: 'sandman_execution_finalization_seconds', labels: { backend }, value: seconds(lagMs) } as const]),
  ],
  'execution.interrupted': ({ status, reason, backend }) => [execution({ status, reason, backend })],
  'provider.answered': ({ backend, call, durationMs }) => providerCall({ backend, call, durationMs, answer: 'ok' }),
  'provider.failed': ({ backend, call, durationMs, answer }) => providerCall({ backend, call, durationMs, answer }),
  'reaper.asked': ({ limit, kind }) => [{ name: 'sandman_reaper_asked_total', labels: { limit, kind } }],
  'reaper.ticked': ({ renewed, events, output, keys, findings, tallies }) => [
    ...some({ name: 'sandman_reaper_renewals_total', labels: { renewal: 'renewed' }, value: Number(renewed) }),
    ...some({ name: 'sandman_reaper_pruned_total', value: [events, output, keys, findings, tallies].reduce(plus, 0) }),
  ],
  'reaper.not_renewed': () => [{ name: 'sandman_reaper_renewals_total', labels: { renewal: 'failed' } }],
  'sweep.suspects': ({ backend, found }) =>
    Object.entries((found ?? {}) as Record<string, number>).flatMap(([finding, value]) =>
      some({ name: 'sandman_sweep_verdicts_total', labels: { verdict: 'suspected', finding, backend }, value }),
    ),
  'sweep.dismissed': ({ backend, kind }) => [verdict({ verdict: 'dismissed', finding: kind, backend })],
  'sweep.acted': ({ backend, kind }) => [verdict({ verdict: 'acted', finding: kind, backend })],
  'sweep.round_ended': ({ backend }) => [{ name: 'sandman_sweep_rounds_total', labels: { backend } }],
  'invariant.checked': ({ sandboxes }) => some({ name: 'sandman_invariant_checks_total', value: Number(sandboxes) }),
  'invariant.violated': ({ invariant }) => [{ name: 'sandman_invariant_violations_total', labels: { invariant } }],
  'request.failed': () => [{ name: 'sandman_requests_failed_total' }],
  'job.done': job('done'),
  'job.ticked': job('done'),
  'job.superseded': job('superseded'),
  'job.snoozed': job('snoozed'),
  'job.failed': job('failed'),
  'job.gave_up': job('gave_up'),
  'job.handed_back': job('handed_back'),
  'job.stalled': job('stalled'),
}

function operation({ kind, backend, outcome, errorType }: Fields): Happening {
  return { name: 'sandman_operations_total', labels: { kind, backend, outcome, error_type: errorType } }
}

function execution(labels: Fields): Happening {
  return { name: 'sandman_executions_total', labels }
}

function left({ state, backend, ms }: Fields): Happening {
  return { name: 'sandman_state_duration_seconds', labels: { state, backend }, value: seconds(ms) }
}

function providerCall({ backend, call, durationMs, answer }: Fields): Happening[] {
  return [
    { name: 'sandman_provider_calls_total', labels: { backend, call, answer } },
    { name: 'sandman_provider_call_duration_seconds', labels: { backend, call }, value: seconds(durationMs) },
  ]
}

function verdict(labels: Fields): Happening {
  return { name: 'sandman_sweep_verdicts_total', labels }
}

function job(result: string): Rule {
  return ({ queue }) => [{ name: 'sandman_jobs_total', labels: { queue, result } }]
}

/** What amounts to nothing is not counted. */
function some(happening: Happening): Happening[] {
  return (happening.value ?? 0) > 0 ? [happening] : []
}

function plus(sum: number, value: unknown): number {
  return sum + (Number(value) || 0)
}

function seconds(ms: unknown): number {
  return Math.max(0, Number(ms) || 0) / 1_000
}
