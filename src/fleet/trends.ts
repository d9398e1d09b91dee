import type { TrendPart } from '../db/tallies.ts'
import type { FailureType } from '../sandbox/failures.ts'
import { OPERATION_OUTCOMES } from '../sandbox/operations.ts'
import { quantile } from './histogram.ts'
import type { Overview, Trend } from './overview.ts'

type Counts = readonly Pick<TrendPart, 'name' | 'labels' | 'value'>[]

const OPERATIONS = 'sandman_operations_total'
const DURATIONS = 'sandman_operation_duration_seconds_bucket'
const EXECUTIONS = 'sandman_executions_total'

/** How resumes have gone, all of them together. */
export function viewResumes(parts: Counts): Overview['resumes'] {
  const resumes = parts.filter(({ name, labels }) => name === OPERATIONS && labels.kind === 'resume')
  const failed = new Map<string, number>()
  for (const { labels, value } of resumes)
    if (labels.outcome === 'failed')
      failed.set(labels.error_type as string, (failed.get(labels.error_type as string) ?? 0) + value)
  return {
    succeeded: sum(resumes.filter(({ labels }) => isSuccess(labels.outcome))),
    failed: [...failed]
      .map(([errorType, count]) => ({ errorType: errorType as FailureType, count }))
      .sort((a, b) => b.count - a.count),
    p50Ms: resumeMs(parts, 0.5),
    p95Ms: resumeMs(parts, 0.95),
  }
}

/** One number for each part of the time up to now, the oldest first. */
export function viewTrends(
  parts: readonly TrendPart[],
  { at, withinMs, everyMs }: { at: Date; withinMs: number; everyMs: number },
): Trend[] {
  const last = Math.floor(at.getTime() / everyMs)
  const first = last - Math.ceil(withinMs / everyMs) + 1
  const byTime = Map.groupBy(parts, (part) => Math.floor(part.at.getTime() / everyMs))
  const times = Array.from({ length: last - first + 1 }, (_, nth) => byTime.get(first + nth) ?? [])
  const trend = (name: string, unit: Trend['unit'], value: (counts: Counts) => number | null): Trend => ({
    name,
    unit,
    everyMs,
    values: times.map(value),
  })
  const operations = (counts: Counts, wanted: (labels: Record<string, string>) => boolean) =>
    sum(counts.filter(({ name, labels }) => name === OPERATIONS && wanted(labels)))
  return [
    trend('operations settled', 'count', (counts) => operations(counts, ({ outcome }) => outcome !== 'refused')),
    trend('operations failed', 'count', (counts) => operations(counts, ({ outcome }) => outcome === 'failed')),
    trend('resumes that worked', 'percent', (counts) => {
      const worked = operations(counts, ({ kind, outcome }) => kind === 'resume' && isSuccess(outcome))
      const failed = operations(counts, ({ kind, outcome }) => kind === 'resume' && outcome === 'failed')
      return worked + failed === 0 ? null : (100 * worked) / (worked + failed)
    }),
    trend('resume time, 95 of 100', 'ms', (counts) => resumeMs(counts, 0.95)),
    trend('executions ended', 'count', (counts) => sum(counts.filter(({ name }) => name === EXECUTIONS))),
    trend('executions failed', 'count', (counts) =>
      sum(counts.filter(({ name, labels }) => name === EXECUTIONS && labels.status === 'failed')),
    ),
  ]
}

function resumeMs(parts: Counts, share: number): number | null {
  const buckets = new Map<number, number>()
  for (const { name, labels, value } of parts) {
    if (name !== DURATIONS || labels.kind !== 'resume') continue
    const upTo = Number(labels.le === '+Inf' ? Number.POSITIVE_INFINITY : labels.le)
    buckets.set(upTo, (buckets.get(upTo) ?? 0) + value)
  }
  const seconds = quantile(buckets, share)
  return seconds === null ? null : Math.round(seconds * 1_000)
}

function isSuccess(outcome: string | undefined): boolean {
  return OPERATION_OUTCOMES.some((success) => success === outcome)
}

function sum(parts: Counts): number {
  return parts.reduce((total, { value }) => total + value, 0)
}
