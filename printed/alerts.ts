import { STUCK_MS } from '../src/fleet/overview.ts'
import { duration } from '../src/fleet/words.ts'

/** What somebody should be woken for, or told in the morning: `deploy/prometheus/alerts.yaml`, `docs/metrics.md` and `docs/operations.md` are printed from it. */
export type Alert = {
  name: string
  /** In PromQL. The threshold is part of it. */
  when: string
  /** How long that has to be so. */
  forMinutes: number
  severity: 'critical' | 'warning'
  /** One line for a pager; labels of the alert may stand in it. */
  summary: string
  means: string
  act: string
}

/** Every web process tells the same of the whole fleet: of several that are scraped, one counts. */
export const once = (expression: string) => `max without (instance, pod) (${expression})`
export const rate = (selector: string, minutes = 5) => once(`rate(${selector}[${minutes}m])`)
const increase = (selector: string, minutes: number) => once(`increase(${selector}[${minutes}m])`)

/** What a provider may say without anything being wrong with it. */
const FINE = 'ok|given_up|overtaken|in_use|sandbox_expired|checkpoint_missing|spec_invalid'

export const ALERTS: readonly Alert[] = [
  {
    name: 'SandmanDown',
    when: 'absent(up{job="sandman"} == 1)',
    forMinutes: 2,
    severity: 'critical',
    summary: 'No web process of Sandman tells its metrics.',
    means:
      'No web process answers `/metrics`: none runs, the token of the scrape is not accepted, or the database does not answer, without which there is nothing to tell. Workers may well go on.',
    act: 'Ask `/healthz` and `/readyz` of a web process. 401 or 403: mend the token file of the scrape. `not_ready`: its log says what is away.',
  },
  {
    name: 'SandmanDependencyAway',
    when: `${once('sandman_up')} == 0`,
    forMinutes: 2,
    severity: 'critical',
    summary: 'Sandman cannot reach its {{ $labels.check }}, or it is not as it should be.',
    means:
      'A web process answers, and something that requests need does not. While the queue is away, requests are accepted and carried out later. `migrations`: the database lacks what this release needs.',
    act: '`sandman doctor` says what is wrong from where it is run. For `migrations`, run `sandman migrate`.',
  },
  {
    name: 'SandmanInvariantViolated',
    when: `${once('sandman_invariant_violations')} > 0`,
    forMinutes: 0,
    severity: 'critical',
    summary: '{{ $value }} sandboxes violate {{ $labels.invariant }}.',
    means:
      'Something that must always be true is not: a bug of Sandman, or somebody has changed rows or constraints by hand. Nothing is repaired by itself, because nobody knows what is right.',
    act: 'The table `sandman.violations` has the sandboxes and what was seen, and the log `invariant.violated`. `sandman why <id>` tells how it came about. Please report it with that.',
  },
  {
    name: 'SandmanOperationsStuck',
    when: `${once('sandman_operations_stuck')} > 0`,
    forMinutes: 10,
    severity: 'critical',
    summary: '{{ $value }} operations have been at work for too long.',
    means: `Operations have been at work for more than ${duration(STUCK_MS)}, and their sandboxes are neither here nor there: no worker has their backend or takes their queue, or their provider does not answer.`,
    act: 'The console names them with their last error, and `sandman why <id>` tells each of their attempts. Look whether workers run with that backend (`SANDMAN_BACKENDS`, `SANDMAN_QUEUES`), and whether the provider is well. Nothing has to be cleaned up: they go on by themselves.',
  },
  {
    name: 'SandmanResumesFail',
    when: `sum(${rate('sandman_operations_total{kind="resume",outcome="failed"}', 15)}) / sum(${rate('sandman_operations_total{kind="resume",outcome!="refused"}', 15)}) > 0.05`,
    forMinutes: 10,
    severity: 'critical',
    summary: '{{ $value | humanizePercentage }} of all resumes fail.',
    means:
      'More than one in twenty resumes has failed in the last quarter of an hour: people wait for sandboxes that do not come.',
    act: 'By error type in the dashboard. `sandbox_unreachable`: the provider, or what wakes in it (wake commands, previews). `checkpoint_missing`, `sandbox_expired`: something deletes what it should not; look at the retention there. `provider_unauthorized`, `quota_exceeded`: the account.',
  },
  {
    name: 'SandmanResumesSlow',
    when: `histogram_quantile(0.95, sum by (le) (${rate('sandman_operation_duration_seconds_bucket{kind="resume"}', 15)})) > 30`,
    forMinutes: 15,
    severity: 'warning',
    summary: 'Five of a hundred resumes take longer than {{ $value | humanizeDuration }}.',
    means: 'Resumes take longer than half a minute, their time in line included.',
    act: 'Compare with the time of the provider calls `resume`, `hook` and `probe`: if those are fast, look at the queue `resume` and start more workers; if not, at the provider or the wake commands.',
  },
  {
    name: 'SandmanQueueOld',
    when: `${once('sandman_queue_oldest_seconds')} > 60`,
    forMinutes: 5,
    severity: 'warning',
    summary: 'The first job in the queue {{ $labels.queue }} has waited for {{ $value | humanizeDuration }}.',
    means: 'Jobs come faster than they are worked on, or no worker takes this queue at all.',
    act: 'Start more workers, or some that take this queue (`SANDMAN_QUEUES`). If there are enough: a provider that hangs keeps them waiting, which the time of its calls shows.',
  },
  {
    name: 'SandmanJobsGiveUp',
    when: `sum by (queue) (${increase('sandman_jobs_total{result="gave_up"}', 15)}) > 0`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'Jobs of the queue {{ $labels.queue }} failed for good.',
    means:
      'A job failed as often as it may, or could not be read: an operation that is rung for again all the same, or a payload of another release.',
    act: 'Bull Board at `/queues` has the job with its error, and the log `job.gave_up`.',
  },
  {
    name: 'SandmanSweepStopped',
    when: `sum by (backend) (${once('sandman_sweep_places{condition="stopped"}')}) > 0`,
    forMinutes: 5,
    severity: 'critical',
    summary: 'The sweep of {{ $labels.backend }} has stopped: what its provider shows is not believed.',
    means:
      'A provider suddenly shows far less than it should, or much that nobody knows: another account, another fleet of the same name, or a real loss. Nothing is ended there until that is clear.',
    act: '`sandman sweep --dry-run` says what is missing. If it is the wrong account or database, mend that, and it goes on by itself. If it is true, `sandman sweep --believe`.',
  },
  {
    name: 'SandmanSweepFailing',
    when: `sum by (backend) (${once('sandman_sweep_places{condition="failing"}')}) > 0`,
    forMinutes: 15,
    severity: 'warning',
    summary: 'The provider of {{ $labels.backend }} does not answer the sweeper.',
    means:
      'Its lists cannot be read to their end. Nothing is concluded from them, and nothing orphaned is ended, until they can.',
    act: 'The console has the message. Look at the credentials of the workers and at the provider’s status page.',
  },
  {
    name: 'SandmanPlaceUnswept',
    when: `sum by (backend) (${once('sandman_sweep_places{condition="unswept"}')}) > 0`,
    forMinutes: 15,
    severity: 'warning',
    summary: 'A place of {{ $labels.backend }} is swept by nobody.',
    means:
      'Some worker has swept an account, a cluster or a machine before, and none does any more: orphans cost money there, and losses are noticed by whoever needs them.',
    act: 'The console names the place. Look whether a worker takes the queue `sweeper` and has the backend. A machine that is gone for good is forgotten after seven days.',
  },
  {
    name: 'SandmanNothingSwept',
    when: `sum(${once('sandman_sandboxes')}) > 0 unless sum(${increase('sandman_sweep_rounds_total', 60)}) > 0`,
    forMinutes: 15,
    severity: 'warning',
    summary: 'Nothing was compared with any provider for an hour.',
    means: 'No round of the sweeper has come to its end: no worker takes its queue, or every provider fails.',
    act: 'Look whether a worker takes the queue `sweeper` (`SANDMAN_QUEUES`), and what the log says of `sweep.failing`.',
  },
  {
    name: 'SandmanReaperSilent',
    when: `absent(sum(${increase('sandman_jobs_total{queue="reaper",result="done"}', 15)}) > 0)`,
    forMinutes: 5,
    severity: 'warning',
    summary: 'The reaper has not ticked for a quarter of an hour.',
    means:
      'No limit is kept, no time at a provider renewed, nothing pruned and no invariant checked: no worker takes the queue `reaper`, or none runs.',
    act: 'Look whether workers run, and take the queue `reaper` (`SANDMAN_QUEUES`). Its schedule is made by every worker that does.',
  },
  {
    name: 'SandmanLeasesNotRenewed',
    when: `sum(${increase('sandman_reaper_renewals_total{renewal="failed"}', 15)}) > 0`,
    forMinutes: 10,
    severity: 'warning',
    summary: 'Sandboxes could not be given more time at their provider.',
    means: 'Their provider will end or pause them by itself when their time is over.',
    act: 'The log `reaper.not_renewed` says which and why; the console shows those that end soon. A pause keeps what is in them.',
  },
  {
    name: 'SandmanStreamsLost',
    when: `sum by (backend) (${increase('sandman_executions_total{reason="stream_lost"}', 15)}) > 0`,
    forMinutes: 0,
    severity: 'warning',
    summary: 'The output of executions at {{ $labels.backend }} was lost.',
    means:
      'Executions failed because their output ended at once, again and again, although their agents are said to run.',
    act: 'The executions have the messages. Look at what is between the workers and the provider: proxies that cut long connections, log rotation, an API that hangs.',
  },
  {
    name: 'SandmanFinalizationSlow',
    when: `histogram_quantile(0.95, sum by (le) (${rate('sandman_execution_finalization_seconds_bucket', 15)})) > 60`,
    forMinutes: 15,
    severity: 'warning',
    summary: 'Executions are recorded as ended {{ $value | humanizeDuration }} after their output has.',
    means: 'Agents have ended long before their executions do: whoever waits for them waits for nothing.',
    act: 'The provider’s status of its agents lags or cannot be read: see the calls `agent_status`. Or there are too few workers for the queue `streams`.',
  },
  {
    name: 'SandmanProviderErrors',
    when: `sum by (backend) (${rate(`sandman_provider_calls_total{answer!~"${FINE}"}`, 10)}) / sum by (backend) (${rate('sandman_provider_calls_total', 10)}) > 0.1`,
    forMinutes: 10,
    severity: 'warning',
    summary: '{{ $value | humanizePercentage }} of the calls to {{ $labels.backend }} fail.',
    means: 'More than one in ten calls to a provider brings no answer, or one that nobody can use.',
    act: 'By call and answer in the dashboard. Operations are tried again by themselves; look at the provider’s status page, and at its limits if it is `rate_limited`.',
  },
  {
    name: 'SandmanProviderUnauthorized',
    when: `sum by (backend) (${increase('sandman_provider_calls_total{answer="provider_unauthorized"}', 10)}) > 0`,
    forMinutes: 5,
    severity: 'critical',
    summary: 'The provider of {{ $labels.backend }} does not accept the credentials of the workers.',
    means: 'A key was revoked, has expired, or is another account’s. Nothing is paused, resumed or ended there.',
    act: 'Give the workers a key that works, and restart them. What was asked for meanwhile has failed as `provider_unauthorized` and may be asked for again.',
  },
]

/** `deploy/prometheus/alerts.yaml`. Text is written as JSON, which YAML reads. */
export function alertsFile(): string {
  const rule = ({ name, when, forMinutes, severity, summary, means, act }: Alert) =>
    [
      `      - alert: ${name}`,
      `        expr: ${JSON.stringify(when)}`,
      `        for: ${forMinutes}m`,
      '        labels:',
      `          severity: ${severity}`,
      '        annotations:',
      `          summary: ${JSON.stringify(summary)}`,
      `          description: ${JSON.stringify(`${means} ${act}`)}`,
      `          runbook: docs/operations.md#${name.toLowerCase()}`,
    ].join('\n')
  return `# Alert rules for Prometheus, printed from printed/alerts.ts; a test fails when this file is stale. What each of them means
# and what to do is in docs/operations.md. The scrape that they expect is in scrape.example.yaml beside it.
groups:
  - name: sandman
    rules:
${ALERTS.map(rule).join('\n')}
`
}
