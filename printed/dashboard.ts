import { once, rate } from './alerts.ts'

/** A picture of a few lines, or one number. */
type Panel = {
  title: string
  says: string
  unit: 'short' | 's' | 'percentunit' | 'ops'
  kind?: 'stat'
  stacked?: true
  lines: readonly { expression: string; legend?: string }[]
}

const quantiles = (metric: string, selector: string, by: string, shares: readonly number[]) =>
  shares.map((share) => ({
    expression: `histogram_quantile(${share}, sum by (${by ? `${by}, ` : ''}le) (${rate(`${metric}_bucket${selector}`)}))`,
    legend: `${by ? `{{${by}}} ` : ''}p${share * 100}`,
  }))

const sumBy = (by: string, expression: string) => ({
  expression: `sum by (${by}) (${expression})`,
  legend: by
    .split(', ')
    .map((label) => `{{${label}}}`)
    .join(' '),
})

const OPERATIONS = 'sandman_operations_total'
const RESUMES = (more: string) => `${OPERATIONS}{kind="resume",${more}}`

/** Rows of the dashboard, from what everybody asks first to what explains it. */
const ROWS: readonly { title: string; panels: readonly Panel[] }[] = [
  {
    title: 'At a glance',
    panels: [
      {
        title: 'Sandboxes',
        says: 'Not gone.',
        unit: 'short',
        kind: 'stat',
        lines: [{ expression: `sum(${once('sandman_sandboxes')})` }],
      },
      {
        title: 'Stuck operations',
        says: 'At work for more than ten minutes.',
        unit: 'short',
        kind: 'stat',
        lines: [{ expression: once('sandman_operations_stuck') }],
      },
      {
        title: 'Resumes that work',
        says: 'Of those in the last hour that were not refused.',
        unit: 'percentunit',
        kind: 'stat',
        lines: [
          {
            expression: `1 - (sum(${rate(RESUMES('outcome="failed"'), 60)}) or vector(0)) / sum(${rate(RESUMES('outcome!="refused"'), 60)})`,
          },
        ],
      },
      {
        title: 'Invariant violations',
        says: 'Anything but 0 is a bug.',
        unit: 'short',
        kind: 'stat',
        lines: [{ expression: `sum(${once('sandman_invariant_violations')})` }],
      },
      {
        title: 'Places not swept well',
        says: 'Stopped, failing or unswept.',
        unit: 'short',
        kind: 'stat',
        lines: [{ expression: `sum(${once('sandman_sweep_places{condition!="well"}')})` }],
      },
      {
        title: 'What answers',
        says: 'Database, queue and migrations: 1, or 0.',
        unit: 'short',
        kind: 'stat',
        lines: [{ expression: once('sandman_up'), legend: '{{check}}' }],
      },
    ],
  },
  {
    title: 'Sandboxes',
    panels: [
      {
        title: 'By state',
        says: 'Not gone.',
        unit: 'short',
        stacked: true,
        lines: [sumBy('state', once('sandman_sandboxes'))],
      },
      {
        title: 'By backend',
        says: 'Not gone.',
        unit: 'short',
        stacked: true,
        lines: [sumBy('backend', once('sandman_sandboxes'))],
      },
      {
        title: 'The oldest in flight',
        says: 'How long the one that is longest in such a state has been in it.',
        unit: 's',
        lines: [
          {
            expression: `max by (state) (sandman_state_oldest_seconds{state!~"running|suspended"})`,
            legend: '{{state}}',
          },
        ],
      },
      {
        title: 'Time in each state',
        says: 'The median of those that have left it.',
        unit: 's',
        lines: quantiles('sandman_state_duration_seconds', '', 'state', [0.5]),
      },
    ],
  },
  {
    title: 'Operations',
    panels: [
      { title: 'Ended, by kind', says: 'A second.', unit: 'ops', lines: [sumBy('kind', rate(OPERATIONS))] },
      {
        title: 'Failed and refused, by error type',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('kind, error_type', rate(`${OPERATIONS}{outcome=~"failed|refused"}`))],
      },
      {
        title: 'Resumes, by outcome',
        says: 'A second.',
        unit: 'ops',
        stacked: true,
        lines: [sumBy('outcome, error_type', rate(RESUMES('outcome!=""')))],
      },
      {
        title: 'Time of a resume',
        says: 'From the request to its end.',
        unit: 's',
        lines: quantiles('sandman_operation_duration_seconds', '{kind="resume"}', '', [0.5, 0.95, 0.99]),
      },
      {
        title: 'Time of every kind',
        says: 'Of ninety-five in a hundred.',
        unit: 's',
        lines: quantiles('sandman_operation_duration_seconds', '', 'kind', [0.95]),
      },
      {
        title: 'Undecided',
        says: 'Attempts after which nobody could say what had become of it.',
        unit: 'ops',
        lines: [sumBy('kind, backend', rate('sandman_operations_undecided_total'))],
      },
    ],
  },
  {
    title: 'Executions',
    panels: [
      {
        title: 'Ended, by reason',
        says: 'A second.',
        unit: 'ops',
        stacked: true,
        lines: [sumBy('reason', rate('sandman_executions_total'))],
      },
      {
        title: 'Failed, by backend',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('backend, reason', rate('sandman_executions_total{status="failed"}'))],
      },
      {
        title: 'Finalization',
        says: 'From the end of the output to the recorded end.',
        unit: 's',
        lines: quantiles('sandman_execution_finalization_seconds', '', '', [0.5, 0.95]),
      },
    ],
  },
  {
    title: 'Queues',
    panels: [
      {
        title: 'Waiting',
        says: 'Jobs.',
        unit: 'short',
        lines: [sumBy('queue', once('sandman_queue_jobs{status="waiting"}'))],
      },
      {
        title: 'The first in line',
        says: 'How long it has waited.',
        unit: 's',
        lines: [{ expression: once('sandman_queue_oldest_seconds'), legend: '{{queue}}' }],
      },
      {
        title: 'Active',
        says: 'Jobs that are worked on.',
        unit: 'short',
        lines: [sumBy('queue', once('sandman_queue_jobs{status="active"}'))],
      },
      {
        title: 'Failed and stalled jobs',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('queue, result', rate('sandman_jobs_total{result=~"failed|gave_up|stalled"}'))],
      },
      {
        title: 'Rung again',
        says: 'For operations and executions that nobody had heard of.',
        unit: 'ops',
        lines: [{ expression: rate('sandman_operations_rung_again_total'), legend: 'rung again' }],
      },
    ],
  },
  {
    title: 'Providers',
    panels: [
      {
        title: 'Calls, by answer',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('backend, answer', rate('sandman_provider_calls_total'))],
      },
      {
        title: 'Calls that failed',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('backend, call, answer', rate('sandman_provider_calls_total{answer!="ok"}'))],
      },
      {
        title: 'Time of a call',
        says: 'Of ninety-five in a hundred.',
        unit: 's',
        lines: quantiles('sandman_provider_call_duration_seconds', '', 'call', [0.95]),
      },
    ],
  },
  {
    title: 'Housekeeping',
    panels: [
      {
        title: 'What limits have ended or paused',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('limit, kind', rate('sandman_reaper_asked_total'))],
      },
      {
        title: 'Renewed time at providers',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('renewal', rate('sandman_reaper_renewals_total'))],
      },
      {
        title: 'Verdicts of the sweeper',
        says: 'A second.',
        unit: 'ops',
        lines: [sumBy('verdict, finding', rate('sandman_sweep_verdicts_total'))],
      },
      {
        title: 'Open findings',
        says: 'Seen, and not yet seen to.',
        unit: 'short',
        lines: [{ expression: once('sandman_findings_open'), legend: '{{finding}}' }],
      },
      {
        title: 'Checked invariants',
        says: 'Sandboxes a second.',
        unit: 'ops',
        lines: [{ expression: rate('sandman_invariant_checks_total'), legend: 'checked' }],
      },
      {
        title: 'Pruned',
        says: 'Rows a second.',
        unit: 'ops',
        lines: [{ expression: rate('sandman_reaper_pruned_total'), legend: 'pruned' }],
      },
    ],
  },
]

const WIDTH = 24
const datasource = { type: 'prometheus', uid: '$datasource' }

/** `deploy/grafana/sandman.json`, as Grafana imports it. */
export function dashboardFile(): string {
  let y = 0
  let id = 0
  const panels = ROWS.flatMap(({ title, panels: shown }) => {
    const isStats = shown.every(({ kind }) => kind === 'stat')
    const perLine = isStats ? shown.length : 3
    const height = isStats ? 4 : 8
    const row = {
      id: ++id,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { h: 1, w: WIDTH, x: 0, y: y++ },
      panels: [],
    }
    const placed = shown.map((panel, nth) => {
      const w = WIDTH / perLine
      const gridPos = { h: height, w, x: (nth % perLine) * w, y: y + Math.floor(nth / perLine) * height }
      return printPanel(++id, panel, gridPos)
    })
    y += Math.ceil(shown.length / perLine) * height
    return [row, ...placed]
  })
  const variable = { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }
  const dashboard = {
    uid: 'sandman',
    title: 'Sandman',
    description: 'Printed from printed/dashboard.ts; every metric is explained in docs/metrics.md.',
    tags: ['sandman'],
    schemaVersion: 41,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [variable] },
    panels,
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

function printPanel(id: number, { title, says, unit, kind, stacked, lines }: Panel, gridPos: object) {
  return {
    id,
    type: kind ?? 'timeseries',
    title,
    description: says,
    datasource,
    gridPos,
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        ...(!kind && { custom: { fillOpacity: stacked ? 30 : 0, stacking: { mode: stacked ? 'normal' : 'none' } } }),
      },
      overrides: [],
    },
    options: kind
      ? { reduceOptions: { calcs: ['lastNotNull'] } }
      : { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: lines.map(({ expression, legend }, nth) => ({
      refId: String.fromCharCode(65 + nth),
      datasource,
      expr: expression,
      ...(legend !== undefined && { legendFormat: legend }),
    })),
  }
}
