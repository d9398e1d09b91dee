import type { Random } from '../proof/random.ts'

/** What an agent of a run does: so that whoever reads its output, and counts its starts, can tell whether all is there. */
export type AgentPlan = { tag: string; lines: number; exitCode: number }

const LINES = [1, 60] as const
const FAILS_SHARE = 0.15
/** A line says which agent it is of, which it is, and has something to carry besides. */
const lineOf = (tag: string, nth: number) => `${tag} ${nth} ${'.'.repeat(nth % 50)}`

export function planAgent(tag: string, random: Random): AgentPlan {
  return {
    tag,
    lines: Math.round(random.between(...LINES)),
    exitCode: random.chance(FAILS_SHARE) ? 3 : 0,
  }
}

/** It writes down that it was started, outside of its sandbox, and then prints its lines, some of them after a while. */
export function commandOf({ tag, lines, exitCode }: AgentPlan, startsFolder: string): string[] {
  const script = `echo started >>"$1/$2"
n=0 dots=
while [ $n -lt ${lines} ]; do
  n=$((n + 1)) dots=$dots.
  if [ $((n % 50)) -eq 0 ]; then dots=; fi
  echo "$2 $n $dots"
  if [ $((n % 10)) -eq 0 ]; then sleep 0.5; fi
done
exit ${exitCode}`
  return ['sh', '-c', script, 'agent', startsFolder, tag]
}

export function outputOf({ tag, lines }: AgentPlan): string {
  return Array.from({ length: lines }, (_, at) => `${lineOf(tag, at + 1)}\n`).join('')
}

/** What was planned for a command that is in the ledger. */
export function planOf(command: readonly string[] | null): AgentPlan | undefined {
  const [, , script = '', name, , tag] = command ?? []
  const lines = /-lt (\d+)/.exec(script)?.[1]
  const exitCode = /exit (\d+)$/.exec(script)?.[1]
  if (name !== 'agent' || tag === undefined || lines === undefined || exitCode === undefined) return undefined
  return { tag, lines: Number(lines), exitCode: Number(exitCode) }
}
