import { printJson, printTable, say } from '../proof/report.ts'
import { FLAWS, type Flaw, type FlawKind } from './checks.ts'
import type { Diary } from './diary.ts'
import type { Counted } from './faulty-way.ts'
import type { LedgerRows } from './ledger.ts'
import type { ChaosOptions } from './options.ts'
import type { FaultKind } from './plan.ts'
import type { Recovery } from './recovery.ts'

export type Result = {
  options: ChaosOptions
  diary: Diary
  ledger: LedgerRows
  provider: Counted
  flaws: Flaw[]
  /** Of the sandboxes that flaws were found of, as `sandman why` tells it. */
  histories: Map<string, string>
  recovery: Partial<Record<FaultKind | 'all', Recovery>>
  settledAfterMs: number
  /** What the sweeper had to see to. */
  swept: string[]
}

export type Summary = ReturnType<typeof summarize>

export function summarize({ options, diary, ledger, provider, flaws, recovery, settledAfterMs, swept }: Result) {
  const accepted = new Set(diary.told.filter(({ status }) => status < 300).map(({ id }) => id))
  const rows = [...ledger.operations, ...ledger.executions]
  const isSettled = (row: (typeof rows)[number]) => ('settled_at' in row ? row.settled_at : row.ended_at) !== null
  const settled = rows.filter((row) => accepted.has(row.id) && isSettled(row)).length
  const count = (kind: FlawKind) => flaws.filter((one) => one.kind === kind).length
  const { calls, ...mishaps } = provider
  const failed = Object.values(mishaps).reduce((sum, each) => sum + each, 0)
  return {
    seed: options.seed,
    for_s: options.forMs / 1_000,
    queues: options.queues,
    clients: options.clients,
    workers: options.workers,
    accepted: accepted.size,
    settled,
    lost: count('lost'),
    doubled: count('doubled'),
    stuck: count('stuck'),
    leaked: count('leaked'),
    wrong: count('wrong'),
    sandboxes: ledger.sandboxes.length,
    operations: tally(ledger.operations.map(({ status, outcome }) => (outcome === 'done' ? 'done' : status))),
    executions: tally(ledger.executions.map(({ status }) => status)),
    faults: Object.fromEntries(
      Object.entries(recovery).flatMap(([kind, { faults }]) => (kind === 'all' ? [] : [[kind, faults]])),
    ),
    provider: { calls, failed, failed_share: calls === 0 ? 0 : Math.round((100 * failed) / calls) / 100, ...mishaps },
    requests: Object.fromEntries([...diary.statuses].sort()),
    refusals: Object.fromEntries([...diary.refusals].sort()),
    recovery,
    settled_after_ms: settledAfterMs,
    swept: swept.length,
  }
}

export function isGood(summary: Summary): boolean {
  return (Object.keys(FLAWS) as FlawKind[]).every((kind) => summary[kind] === 0)
}

export function print(result: Result, { asJson, logs }: { asJson: boolean; logs: string }): void {
  const summary = summarize(result)
  if (asJson) printJson({ ...summary, flaws: result.flaws })
  else printTable(rowsOf(summary))
  if (isGood(summary)) return
  for (const [nth, { kind, sandboxId, says }] of result.flaws.entries()) {
    say(`\n${nth + 1}. ${kind}: ${sandboxId ?? ''} ${says}`)
  }
  for (const [id, history] of result.histories) say(`\n${id}\n${history}`)
  say(`\nReplay with --seed ${summary.seed}. The logs of all processes are in ${logs}`)
}

function rowsOf(summary: Summary): string[][] {
  const said = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ')
  const total = (counts: Record<string, number>) => String(Object.values(counts).reduce((sum, count) => sum + count, 0))
  const flaws = (Object.keys(FLAWS) as FlawKind[]).map((kind) => [kind, String(summary[kind]), FLAWS[kind]])
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
  const recovery = Object.entries(summary.recovery).map(([kind, one]) => [
    kind === 'all' ? 'recovery' : `  after ${kind}`,
    one.measured === 0 ? '-' : `p50 ${seconds(one.p50Ms)}, p99 ${seconds(one.p99Ms)}, max ${seconds(one.maxMs)}`,
    `${one.measured} measured of ${one.faults} faults`,
  ])
  return [
    ['what', 'figure', ''],
    ['accepted', String(summary.accepted), 'operations and executions that an answer of 2xx named'],
    ['settled', String(summary.settled), `${said(summary.operations)}; executions ${said(summary.executions)}`],
    ...flaws,
    ['requests', total(summary.requests), said(summary.requests)],
    ['faults', total(summary.faults), said(summary.faults)],
    [
      'provider',
      `${summary.provider.calls} calls`,
      `${Math.round(100 * summary.provider.failed_share)} % of them failed or hung`,
    ],
    ...recovery,
    ['settled after', seconds(summary.settled_after_ms), 'from the last fault until nothing was open'],
    ['swept', String(summary.swept), 'found by the sweeper at a provider, and ended or deleted'],
  ]
}

function tally(names: readonly string[]): Record<string, number> {
  const counted = new Map<string, number>()
  for (const name of names) counted.set(name, (counted.get(name) ?? 0) + 1)
  return Object.fromEntries([...counted].sort())
}
