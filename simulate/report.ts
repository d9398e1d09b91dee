import { printTable } from '../proof/report.ts'
import { FAULTS, type FaultName } from './faults.ts'
import type { RunResult } from './run.ts'
import type { Failure } from './seeds.ts'

type Summary = {
  seeds: number
  virtual_hours: number
  operations: number
  executions: number
  statements: number
  happenings: number
  /** By kind, and in all. */
  faults: Record<string, number>
  violations: number
  seconds: number
  failing_seeds: number[]
}

export function summarize(results: readonly RunResult[], failures: readonly Failure[], seconds: number): Summary {
  const sum = (of: (result: RunResult) => number) => results.reduce((total, result) => total + of(result), 0)
  const faults: Record<string, number> = {}
  for (const result of results)
    for (const [name, count] of Object.entries(result.faults)) {
      const { group } = FAULTS[name as FaultName]
      faults[group] = (faults[group] ?? 0) + count
    }
  return {
    seeds: results.length,
    virtual_hours: Math.round(sum(({ virtualMs }) => virtualMs) / 36_000) / 100,
    operations: sum(({ operations }) => operations),
    executions: sum(({ executions }) => executions),
    statements: sum(({ statements }) => statements),
    happenings: sum(({ happenings }) => happenings),
    faults,
    violations: sum(({ findings }) => findings.length),
    seconds: Math.round(seconds),
    failing_seeds: [...results.filter(({ findings }) => findings.length > 0), ...failures].map(({ seed }) => seed),
  }
}

const number = (value: number) => value.toLocaleString('en-US')

/** The hash is that of the only run, if there was one: by it two machines can tell that they have seen the same. */
export function printSummary(
  { faults, violations, seconds, failing_seeds: _, ...counts }: Summary,
  hash: string | undefined,
): void {
  printTable([
    ['', 'over all seeds'],
    ...Object.entries(counts).map(([name, count]) => [name.replaceAll('_', ' '), number(count)]),
    ...Object.entries(faults).map(([group, count]) => [`faults: ${group}`, number(count)]),
    ['violations', number(violations)],
    ['seconds', number(seconds)],
    ...(hash === undefined ? [] : [['hash', hash]]),
  ])
}

/** What it comes to, in words: whoever reads only the last line has to know. */
export function verdict(results: readonly RunResult[], failures: readonly Failure[]): string {
  const found = results.filter(({ findings }) => findings.length > 0)
  const violations = found.reduce((sum, { findings }) => sum + findings.length, 0)
  const seeds = results.length === 1 ? '1 seed' : `${number(results.length)} seeds`
  const what =
    results.length === 0
      ? 'no seed was run to its end'
      : violations === 0
        ? `nothing was found in ${seeds}`
        : `${number(violations)} ${violations === 1 ? 'violation was' : 'violations were'} found in ${found.length} of ${seeds}: ${named(found)}`
  return failures.length === 0 ? what : `${what}; could not be run: ${named(failures)}`
}

const named = (which: readonly { seed: number }[]) => which.map(({ seed }) => seed).join(', ')

/** What was found with one seed, in plain words, and how to see it again. */
export function printFindings({ seed, findings }: RunResult, steps: number | undefined): void {
  for (const { rule, about, says, atMs, story } of findings) {
    process.stdout.write(
      `\nseed ${seed}, after ${Math.round(atMs / 1_000)} s: it must hold that ${rule}.\n  ${about}: ${says}\n`,
    )
    for (const line of story) process.stdout.write(`    ${line}\n`)
  }
  const more = steps === undefined ? '' : ` --steps ${steps}`
  if (findings.length > 0) process.stdout.write(`  again: npm run simulate -- --seed ${seed}${more} --trace\n`)
}
