import { FLAWS, type Flaw, type FlawKind } from './checks/flaw.ts'
import { type Diary, isPromise } from './diary.ts'
import type { Counted } from './faulty-way.ts'
import type { Inflicted } from './inflict.ts'
import type { LedgerRows } from './ledger.ts'
import type { ChaosOptions } from './options.ts'
import { type FaultKind, type PlannedFault, wantedFaults } from './plan.ts'
import type { Recovery } from './recovery.ts'
import { warningsOf } from './shown.ts'

export type Result = {
  options: ChaosOptions
  diary: Diary
  /** Those that clients were told of, as they are in the ledger. */
  operations: LedgerRows['operations']
  executions: LedgerRows['executions']
  planned: readonly PlannedFault[]
  inflicted: readonly Inflicted[]
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

/** What it comes to, in the words of its JSON. */
export function summarize(result: Result) {
  const { options, diary, operations, executions, flaws, recovery, settledAfterMs, swept } = result
  const { accepted } = diary
  const settled = [
    ...operations.filter(({ settled_at }) => settled_at !== null),
    ...executions.filter(({ ended_at }) => ended_at !== null),
  ]
  const count = (kind: FlawKind) => flaws.filter((one) => one.kind === kind).length
  const faults = countFaults(result)
  const provider = countCalls(result.provider)
  const done = operations.filter(({ outcome }) => outcome === 'done').map(({ kind }) => kind)
  const ran = executions.filter(({ status }) => status === 'succeeded').map(() => 'execute')
  return {
    seed: options.seed,
    for_s: options.forMs / 1_000,
    queues: options.queues,
    clients: options.clients,
    workers: options.workers,
    accepted: accepted.size,
    settled: settled.filter(({ id }) => accepted.has(id)).length,
    lost: count('lost'),
    doubled: count('doubled'),
    stuck: count('stuck'),
    leaked: count('leaked'),
    wrong: count('wrong'),
    warnings: warningsOf({
      done: tally([...done, ...ran]),
      promised: diary.told.filter(isPromise).length,
      faults,
      calls: provider.calls,
      failedCalls: provider.failed,
    }),
    accepted_by_kind: tally([...accepted.values()].map(({ kind }) => kind)),
    sandboxes: new Set(operations.map(({ sandbox_id }) => sandbox_id)).size,
    operations: tally(operations.map(({ status, outcome }) => outcome ?? status)),
    executions: tally(executions.map(({ status }) => status)),
    faults,
    provider,
    requests: Object.fromEntries([...diary.statuses].sort()),
    refusals: Object.fromEntries([...diary.refusals].sort()),
    recovery: Object.fromEntries(
      Object.entries(recovery).map(([kind, { p50Ms, p99Ms, maxMs, ...counted }]) => [
        kind,
        { ...counted, p50_ms: p50Ms, p99_ms: p99Ms, max_ms: maxMs },
      ]),
    ),
    settled_after_ms: settledAfterMs,
    swept: swept.length,
  }
}

/** Zeros, whatever else there is to be said. */
export function isGood(summary: Summary): boolean {
  return (Object.keys(FLAWS) as FlawKind[]).every((kind) => summary[kind] === 0)
}

/** Each kind that was wanted, also when none of it was planned. */
function countFaults({ options, planned, inflicted }: Result) {
  const of = (faults: readonly { kind: FaultKind }[], kind: FaultKind) =>
    faults.filter((one) => one.kind === kind).length
  const kinds = wantedFaults(options).toSorted()
  return Object.fromEntries(
    kinds.map((kind) => [kind, { planned: of(planned, kind), inflicted: of(inflicted, kind) }]),
  ) as Partial<Record<FaultKind, { planned: number; inflicted: number }>>
}

function countCalls({ calls, ...mishaps }: Counted) {
  const failed = Object.values(mishaps).reduce((sum, each) => sum + each, 0)
  return { calls, failed, failed_share: calls === 0 ? null : Math.round((100 * failed) / calls) / 100, ...mishaps }
}

function tally(names: readonly string[]): Record<string, number> {
  const counted = new Map<string, number>()
  for (const name of names) counted.set(name, (counted.get(name) ?? 0) + 1)
  return Object.fromEntries([...counted].sort())
}
