import { printJson, printTable, say } from '../proof/report.ts'
import { FLAWS, type FlawKind } from './checks/flaw.ts'
import { isGood, type Result, type Summary, summarize } from './result.ts'

/** The figures on stdout, and what is wrong on stderr, with all that helps to find out why. */
export function print(result: Result, { asJson, logs }: { asJson: boolean; logs: string }): void {
  const summary = summarize(result)
  const flaws = result.flaws.map(({ kind, sandboxId, says }) => ({ kind, sandbox_id: sandboxId ?? null, says }))
  if (asJson) printJson({ ...summary, flaws })
  else printTable(rowsOf(summary))
  if (isGood(summary)) return
  for (const [nth, { kind, sandbox_id, says }] of flaws.entries())
    say(`\n${nth + 1}. ${kind}: ${sandbox_id ?? ''} ${says}`)
  for (const [id, history] of result.histories) say(`\n${id}\n${history}`)
  say(`\nReplay with --seed ${summary.seed}. The logs of all processes are in ${logs}`)
}

type Counts = Record<string, number>
const said = (counts: Counts) =>
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')
const total = (counts: Counts) => String(Object.values(counts).reduce((sum, count) => sum + count, 0))
const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

function rowsOf(summary: Summary): string[][] {
  const flaws = (Object.keys(FLAWS) as FlawKind[]).map((kind) => [kind, String(summary[kind]), FLAWS[kind]])
  const faults = Object.entries(summary.faults)
  const inflicted = Object.fromEntries(faults.map(([kind, one]) => [kind, one.inflicted]))
  const planned = Object.fromEntries(faults.map(([kind, one]) => [kind, one.planned]))
  const { calls, failed_share } = summary.provider
  const failed = failed_share === null ? '' : `${Math.round(100 * failed_share)} % of them failed or hung`
  return [
    ['what', 'figure', ''],
    ['accepted', String(summary.accepted), said(summary.accepted_by_kind)],
    ['settled', String(summary.settled), 'of those, that have come to an end'],
    ...flaws,
    ...shown(summary.warnings),
    ['operations', total(summary.operations), said(summary.operations)],
    ['executions', total(summary.executions), said(summary.executions)],
    ['requests', total(summary.requests), said(summary.requests)],
    ['faults', total(inflicted), faults.map(([kind]) => `${inflicted[kind]} of ${planned[kind]} ${kind}`).join(', ')],
    ['provider', `${calls} calls`, failed],
    ...recovery(summary),
    ['settled after', seconds(summary.settled_after_ms), 'from the last fault until nothing was open'],
    ['swept', String(summary.swept), 'found by the sweeper at a provider, and ended or deleted'],
  ]
}

/** Zeros say little of what did not happen. */
function shown(warnings: readonly string[]): string[][] {
  if (warnings.length === 0)
    return [['shown', 'all', 'each kind of operation was done, and each kind of fault inflicted']]
  return warnings.map((warning, nth) => (nth === 0 ? ['shown', 'not all', warning] : ['', '', warning]))
}

function recovery(summary: Summary): string[][] {
  return Object.entries(summary.recovery).map(([kind, { faults, measured, p50_ms, p99_ms, max_ms }]) => {
    const figures = Object.entries({ p50: p50_ms, p99: p99_ms, max: max_ms })
    const told = figures.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${seconds(ms)}`]))
    return [
      kind === 'all' ? 'recovery' : `  after ${kind}`,
      told.join(', ') || '-',
      `${measured} measured of ${faults} faults`,
    ]
  })
}
