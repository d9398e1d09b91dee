import { outputOf, planOf } from '../agents.ts'
import type { LedgerRows } from '../ledger.ts'
import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** Each was started once at most, ended once, for a true reason, and what it printed is there, every line once and in order. */
export function checkExecutions({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const ended = new Set<string>()
  for (const execution of ledger.executions) {
    const { id, sandbox_id, status, reason, exit_code, output, ended_at } = execution
    const plan = planOf(execution.command)
    if (!plan || ended_at === null) continue
    ended.add(plan.tag)
    const say = (kind: Flaw['kind'], says: string) => found.push(flaw(kind, sandbox_id, `${id} (${plan.tag}) ${says}`))
    const starts = truth.starts.get(plan.tag) ?? 0
    if (starts > 1) say('doubled', `was started ${starts} times`)
    const printed = outputOf(plan)
    if (!printed.startsWith(output))
      say('wrong', `has other output than it printed: ${firstDifference(output, printed)}`)
    const hasRun = reason === 'completed' || (reason === 'error' && exit_code !== null)
    if (hasRun) {
      if (exit_code !== plan.exitCode) say('wrong', `is said to have ended with ${exit_code}, not ${plan.exitCode}`)
      if (output.length < printed.length)
        say('lost', `printed ${printed.length} bytes, of which ${output.length} are kept`)
      if (starts === 0) say('wrong', 'is said to have run, and was never started')
    } else if (!isTrueEnd(execution, starts, ledger))
      say('wrong', `is said to be ${status}: ${reason}, ${execution.message}`)
  }
  for (const { pid, tag } of truth.agents)
    if (ended.has(tag)) found.push(flaw('leaked', undefined, `the agent ${tag} still runs as process ${pid}`))
  return found
}

type Ended = LedgerRows['executions'][number]

/** Of one that did not run to its end: somebody has ended it or its sandbox, or it never began. */
function isTrueEnd({ sandbox_id, created_at, reason }: Ended, starts: number, ledger: LedgerRows): boolean {
  const since = ledger.operations.filter(
    (one) => one.sandbox_id === sandbox_id && (one.settled_at === null || one.settled_at >= created_at),
  )
  const isEnded = since.some(({ kind }) => kind === 'kill' || kind === 'destroy')
  if (reason === 'cancelled') return isEnded || since.some(({ options }) => options.if_busy === 'interrupt')
  const isGone = ledger.sandboxes.some(({ id, state }) => id === sandbox_id && state === 'gone')
  if (reason === 'instance_lost') return isGone && (starts === 0 || isEnded)
  return reason === 'error' && starts === 0
}

function firstDifference(output: string, printed: string): string {
  let at = 0
  while (output[at] === printed[at]) at++
  const around = (text: string) => JSON.stringify(text.slice(Math.max(0, at - 20), at + 20))
  return `at byte ${at} ${around(output)} instead of ${around(printed)}`
}
