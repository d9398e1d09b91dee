import { BACKEND_ERRORS } from '../backends/backend.ts'
import { INVARIANTS } from '../db/invariants.ts'
import { PATIENCE } from '../jobs/patience.ts'
import { QUEUE_NAMES } from '../queues/names.ts'
import { EXECUTION_REASONS } from '../sandbox/executions.ts'
import { FAILURES } from '../sandbox/failures.ts'
import { FINDINGS } from '../sandbox/findings.ts'
import { KINDS } from '../sandbox/judge.ts'
import { LIMIT_NAMES } from '../sandbox/limits.ts'
import { OPERATION_OUTCOMES } from '../sandbox/operations.ts'
import { STATES } from '../sandbox/states.ts'

/** What a label may say. Backends are those that a worker was started with; everything else is a word of the code. */
export const LABELS = {
  backend: 'backend',
  kind: KINDS,
  outcome: [...OPERATION_OUTCOMES, 'failed', 'refused'],
  error_type: ['none', ...Object.keys(FAILURES)],
  /** Of an execution that has ended, or of a job. */
  status: ['succeeded', 'failed', 'cancelled', 'waiting', 'active', 'delayed'],
  reason: Object.keys(EXECUTION_REASONS),
  state: STATES,
  call: Object.keys(PATIENCE.callMs),
  answer: ['ok', 'deadline', 'given_up', 'error', ...BACKEND_ERRORS],
  queue: QUEUE_NAMES,
  result: ['done', 'superseded', 'snoozed', 'failed', 'gave_up', 'handed_back', 'stalled'],
  limit: LIMIT_NAMES,
  finding: Object.keys(FINDINGS),
  verdict: ['suspected', 'dismissed', 'acted'],
  renewal: ['renewed', 'failed'],
  condition: ['well', 'stopped', 'failing', 'unswept'],
  invariant: Object.keys(INVARIANTS),
  check: ['database', 'queue', 'migrations'],
  version: 'version',
} as const satisfies Record<string, string | readonly string[]>

export type LabelName = keyof typeof LABELS

type Described = {
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  labels: readonly LabelName[]
  /** Also kept for the five minutes that it was counted in, if its labels are these: what the trends of the overview are made of. */
  trend?: true | Partial<Record<LabelName, string>>
}

const counter = (help: string, labels: readonly LabelName[] = [], trend?: Described['trend']): Described => ({
  type: 'counter',
  help,
  labels,
  ...(trend && { trend }),
})
const histogram = (help: string, labels: readonly LabelName[], trend?: Described['trend']): Described => ({
  ...counter(help, labels, trend),
  type: 'histogram',
})
const gauge = (help: string, labels: readonly LabelName[] = []): Described => ({
  ...counter(help, labels),
  type: 'gauge',
})

/** Every metric there is. What is counted or measured and not named here is not told. */
export const METRICS = {
  sandman_operations_total: counter(
    'Operations that have ended, by what came of them. Those that were answered without any work are among them.',
    ['kind', 'backend', 'outcome', 'error_type'],
    true,
  ),
  sandman_operation_duration_seconds: histogram(
    'From the request of an operation to its end, its time in line included. Only of those that were worked on.',
    ['kind', 'backend'],
    { kind: 'resume' },
  ),
  sandman_operations_undecided_total: counter(
    'Attempts after which nobody could say what had become of an operation, because its provider did not answer.',
    ['kind', 'backend'],
  ),
  sandman_operations_rung_again_total: counter('Operations and executions that the queue had to be rung for again.'),
  sandman_operations_stuck: gauge(
    'Operations that have been at work for longer than ten minutes, counted up to a thousand.',
  ),

  sandman_executions_total: counter('Executions that have ended.', ['status', 'reason', 'backend'], true),
  sandman_execution_finalization_seconds: histogram(
    "From the end of an agent's output to the end of its execution in the database.",
    ['backend'],
  ),

  sandman_sandboxes: gauge('Sandboxes that are not gone.', ['state', 'backend']),
  sandman_state_oldest_seconds: gauge('How long the sandbox that is longest in a state has been in it.', [
    'state',
    'backend',
  ]),
  sandman_state_duration_seconds: histogram('How long sandboxes were in a state that they have left.', [
    'state',
    'backend',
  ]),

  sandman_queue_jobs: gauge('Jobs in a queue.', ['queue', 'status']),
  sandman_queue_oldest_seconds: gauge('How long the first in line of a queue has waited; 0 when none waits.', [
    'queue',
  ]),
  sandman_jobs_total: counter('Times that a worker was through with a job, by what came of it.', ['queue', 'result']),

  sandman_provider_calls_total: counter('Calls to providers.', ['backend', 'call', 'answer']),
  sandman_provider_call_duration_seconds: histogram('How long calls to providers took, whatever came of them.', [
    'backend',
    'call',
  ]),

  sandman_reaper_asked_total: counter('What the reaper has asked for, because a sandbox had reached a limit.', [
    'limit',
    'kind',
  ]),
  sandman_reaper_renewals_total: counter("Times that a sandbox's time at its provider was to be renewed.", ['renewal']),
  sandman_reaper_pruned_total: counter('Rows of history, output, keys and the like that were old and are forgotten.'),

  sandman_sweep_verdicts_total: counter('What the sweeper has made of what was not as it should be.', [
    'verdict',
    'finding',
    'backend',
  ]),
  sandman_sweep_rounds_total: counter('Rounds in which everything at a provider was compared once.', ['backend']),
  sandman_sweep_places: gauge('Places that are swept, and how each stands: an account, a cluster, a machine.', [
    'backend',
    'condition',
  ]),
  sandman_findings_open: gauge('What the sweeper has found and not yet seen to.', ['finding']),

  sandman_invariant_checks_total: counter('Sandboxes of which was checked what must always be true.'),
  sandman_invariant_violations_total: counter('Violations that were not known before.', ['invariant']),
  sandman_invariant_violations: gauge('Violations that are known now. Anything but 0 is a bug.', ['invariant']),

  sandman_up: gauge('Whether something that a request needs answers: 1, or 0.', ['check']),
  sandman_requests_failed_total: counter('HTTP requests that failed here, and not by their own fault.'),
  sandman_build_info: gauge('Always 1.', ['version']),
} as const satisfies Record<`sandman_${string}`, Described>

export type MetricName = keyof typeof METRICS

export function describedAs(name: MetricName): Described {
  return METRICS[name]
}
