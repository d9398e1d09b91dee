import { countViolations } from '../db/checks.ts'
import { INVARIANTS } from '../db/invariants.ts'
import type { Db } from '../db/pool.ts'
import { readTallies } from '../db/tallies.ts'
import { QUEUE_NAMES } from '../queues/names.ts'
import { VERSION } from '../version.ts'
import { SECONDS } from './histogram.ts'
import { describedAs, LABELS, type LabelName, METRICS, type MetricName } from './metric-table.ts'
import type { Overview } from './overview.ts'
import type { Sweep } from './sweep.ts'

type Labels = Readonly<Record<string, string>>
type Sample = { labels: Labels; value: number }

/** Every metric of the table, of the whole fleet, as Prometheus reads it (text format 0.0.4). */
export async function readMetrics(db: Db, fleet: string, overview: Overview): Promise<string> {
  const tallies = Map.groupBy(await readTallies(db, fleet), ({ name }) => name)
  const gauges = gaugesOf(overview, await countViolations(db, fleet))
  const zeros = zerosOf(overview)
  const names = Object.keys(METRICS) as MetricName[]
  return names
    .flatMap((name) =>
      print(name, gauges[name] ?? [], (series) => withZeros(tallies.get(series) ?? [], zeros[series] ?? [])),
    )
    .join('\n')
    .concat('\n')
}

/**
 * What alerts look at is told before it has ever happened: of a series that begins with 1, Prometheus cannot tell that it was 0
 * before, and the first time would be missed.
 */
function zerosOf({ counts, sweeps }: Overview): Record<string, Labels[]> {
  const backends = new Set([...counts, ...sweeps].map(({ backend }) => backend))
  return {
    sandman_jobs_total: QUEUE_NAMES.flatMap((queue) => LABELS.result.map((result) => ({ queue, result }))),
    sandman_executions_total: [...backends].map((backend) => ({ status: 'failed', reason: 'stream_lost', backend })),
    sandman_reaper_renewals_total: LABELS.renewal.map((renewal) => ({ renewal })),
    sandman_sweep_rounds_total: [...backends].map((backend) => ({ backend })),
    sandman_invariant_violations_total: LABELS.invariant.map((invariant) => ({ invariant })),
  } satisfies Partial<Record<MetricName, Labels[]>>
}

function withZeros(samples: Sample[], zeros: Labels[]): Sample[] {
  const missing = zeros.filter((labels) => !samples.some((sample) => isOf(sample.labels, labels)))
  return [...samples, ...missing.map((labels) => ({ labels, value: 0 }))]
}

/** What there is now. */
function gaugesOf(
  overview: Overview,
  violations: { invariant: string; count: number }[],
): Partial<Record<MetricName, Sample[]>> {
  const { at, counts, health, queues, sweeps } = overview
  return {
    sandman_operations_stuck: [{ labels: {}, value: overview.stuckCount }],
    sandman_sandboxes: counts.map(({ state, backend, count }) => ({ labels: { state, backend }, value: count })),
    sandman_state_oldest_seconds: counts.map(({ state, backend, oldestSince }) => ({
      labels: { state, backend },
      value: Math.max(0, at.getTime() - oldestSince.getTime()) / 1_000,
    })),
    sandman_queue_jobs: (queues ?? []).flatMap(({ name: queue, waiting, active, delayed, failed }) =>
      Object.entries({ waiting, active, delayed, failed }).map(([status, value]) => ({
        labels: { queue, status },
        value,
      })),
    ),
    sandman_queue_oldest_seconds: (queues ?? []).map(({ name: queue, oldestMs }) => ({
      labels: { queue },
      value: (oldestMs ?? 0) / 1_000,
    })),
    sandman_sweep_places: [...Map.groupBy(sweeps, ({ backend }) => backend)].flatMap(([backend, places]) =>
      Object.entries(CONDITIONS).map(([condition, holds]) => ({
        labels: { backend, condition },
        value: places.filter(holds).length,
      })),
    ),
    sandman_findings_open: overview.orphans.map(({ kind, open }) => ({ labels: { finding: kind }, value: open })),
    sandman_invariant_violations: Object.keys(INVARIANTS).map((invariant) => ({
      labels: { invariant },
      value: violations.find((violated) => violated.invariant === invariant)?.count ?? 0,
    })),
    sandman_up: Object.entries(health.checks).map(([check, { ok }]) => ({ labels: { check }, value: ok ? 1 : 0 })),
    sandman_build_info: [{ labels: { version: VERSION }, value: 1 }],
  }
}

const CONDITIONS: Record<string, (sweep: Sweep) => boolean> = {
  well: ({ stopped, failing, isUnswept }) => !stopped && !failing && !isUnswept,
  stopped: ({ stopped }) => stopped !== null,
  failing: ({ failing }) => failing !== null,
  unswept: ({ isUnswept }) => isUnswept,
}

function print(name: MetricName, gauges: Sample[], tallied: (series: string) => Sample[]): string[] {
  const { type, help, labels } = describedAs(name)
  const samples = type === 'gauge' ? gauges : tallied(name)
  // One that was never counted, and has no labels, is 0; of one with labels nobody knows which.
  const shown = type === 'counter' && labels.length === 0 && samples.length === 0 ? [{ labels: {}, value: 0 }] : samples
  return [
    `# HELP ${name} ${escapeHelp(help)}`,
    `# TYPE ${name} ${type}`,
    ...(type === 'histogram'
      ? printHistogram(name, tallied(`${name}_bucket`), tallied(`${name}_sum`))
      : shown.map((sample) => line(name, sample.labels, sample.value))),
  ]
}

/** Counted by bucket, and told as Prometheus wants it: of each bound, all that is not above it. */
function printHistogram(name: string, buckets: Sample[], sums: Sample[]): string[] {
  return sums.flatMap(({ labels, value }) => {
    const own = buckets.filter((bucket) => isOf(bucket.labels, labels))
    const count = (le: string) => own.find((bucket) => bucket.labels.le === le)?.value ?? 0
    let below = 0
    const lines = SECONDS.map(String).map((le) => {
      below += count(le)
      return line(`${name}_bucket`, { ...labels, le }, below)
    })
    const all = below + count('+Inf')
    return [
      ...lines,
      line(`${name}_bucket`, { ...labels, le: '+Inf' }, all),
      line(`${name}_sum`, labels, value),
      line(`${name}_count`, labels, all),
    ]
  })
}

function isOf(bucket: Labels, labels: Labels): boolean {
  return Object.entries(labels).every(([name, value]) => bucket[name] === value)
}

function line(name: string, labels: Labels, value: number): string {
  const told = Object.entries(labels).map(([label, text]) => `${label as LabelName}="${escapeLabel(text)}"`)
  return `${name}${told.length > 0 ? `{${told.join(',')}}` : ''} ${value}`
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
