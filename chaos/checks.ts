import type { SettledState } from '../src/sandbox/states.ts'
import { outputOf, planOf } from './agents.ts'
import type { Diary } from './diary.ts'
import type { LedgerRows } from './ledger.ts'
import type { Truth } from './truth.ts'

/** What must not be, each counted on its own. */
export const FLAWS = {
  lost: 'what a client was told of is not there, or has not had its effect at the provider',
  doubled: 'one key named two operations, one life has two instances, or an agent was started twice',
  stuck: 'an operation, an execution or a sandbox that does not come to rest',
  leaked: 'something at a provider that nobody has, or something that somebody has and no provider',
  wrong: 'what is written down is not what happened, or a process fell by itself',
} as const

export type FlawKind = keyof typeof FLAWS
export type Flaw = { kind: FlawKind; sandboxId: string | undefined; says: string }

export type Evidence = {
  diary: Pick<Diary, 'told' | 'unanswered'>
  ledger: LedgerRows
  truth: Truth
  /** Processes that ended by themselves, in sentences. */
  fallen: readonly string[]
}

/** Everything that is not as it must be. An empty list is the only good one. */
export function findFlaws(evidence: Evidence): Flaw[] {
  return [
    ...checkAnswers(evidence),
    ...checkRest(evidence),
    ...checkEffects(evidence),
    ...checkInstances(evidence),
    ...checkCheckpoints(evidence),
    ...checkExecutions(evidence),
    ...evidence.truth.remains.map((name) => flaw('leaked', undefined, `the local backend has left ${name}`)),
    ...evidence.ledger.violations.map(({ sandboxId, invariant, seen }) =>
      flaw('wrong', sandboxId, `${invariant}: ${seen}`),
    ),
    ...evidence.fallen.map((says) => flaw('wrong', undefined, says)),
  ]
}

function flaw(kind: FlawKind, sandboxId: string | undefined, says: string): Flaw {
  return { kind, sandboxId, says }
}

/** What clients were told is in the ledger, and every key has named one thing, to them and there. */
function checkAnswers({ diary, ledger }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const rows = new Map<string, { sandbox_id: string; kind: string }>([
    ...ledger.operations.map((row) => [row.id, row] as const),
    ...ledger.executions.map((row) => [row.id, { sandbox_id: row.sandbox_id, kind: 'execute' }] as const),
  ])
  const keys = new Map(ledger.keys.map((row) => [row.key, row.operation_id ?? row.execution_id]))
  const named = new Map<string, Set<string>>()
  for (const { key, id, kind, sandboxId, status } of diary.told) {
    const before = named.get(key)
    named.set(key, new Set([...(before ?? []), id]))
    if (before?.has(id)) continue
    const row = rows.get(id)
    if (!row) found.push(flaw('lost', sandboxId, `${id} (${kind}, answered ${status}) is not in the ledger`))
    else if (row.sandbox_id !== sandboxId || row.kind !== kind)
      found.push(flaw('lost', sandboxId, `${id} was ${kind} of ${sandboxId}, and is ${row.kind} of ${row.sandbox_id}`))
    if (keys.get(key) !== id)
      found.push(flaw('doubled', sandboxId, `${key} was answered with ${id}, and means ${keys.get(key) ?? 'nothing'}`))
  }
  for (const [key, ids] of named)
    if (ids.size > 1) found.push(flaw('doubled', undefined, `${key} was answered with ${[...ids].join(' and ')}`))
  for (const { key, kind, sandboxId } of diary.unanswered)
    found.push(flaw('lost', sandboxId, `${key} (${kind}) was never answered, also when all was quiet`))
  return found
}

function checkRest({ ledger }: Evidence): Flaw[] {
  const operations = ledger.operations.filter(({ settled_at }) => settled_at === null)
  const executions = ledger.executions.filter(({ ended_at }) => ended_at === null)
  const sandboxes = ledger.sandboxes.filter(({ state }) => !['running', 'suspended', 'gone'].includes(state))
  return [
    ...operations.map(({ id, sandbox_id, kind, status }) => flaw('stuck', sandbox_id, `${kind} ${id} is ${status}`)),
    ...executions.map(({ id, sandbox_id, status }) => flaw('stuck', sandbox_id, `${id} is ${status}`)),
    ...sandboxes.map(({ id, state }) => flaw('stuck', id, `is ${state}`)),
  ]
}

const STATE_AFTER: Partial<Record<string, SettledState>> = {
  spawn: 'running',
  pause: 'suspended',
  resume: 'running',
  kill: 'gone',
  destroy: 'gone',
}

/** Here nothing is ever lost at a provider, and nothing has a limit: whoever is gone for another reason was declared dead alive. */
const TRUE_REASONS = ['killed', 'destroyed', 'spawn_failed']

/** The operations of a sandbox, one after the other: where the last one that did something has led is where it is. */
function checkEffects({ ledger }: Evidence): Flaw[] {
  return ledger.sandboxes.flatMap(({ id, state, gone_reason }) => {
    const found: Flaw[] = []
    if (state === 'gone' && !TRUE_REASONS.includes(gone_reason ?? ''))
      found.push(flaw('wrong', id, `is said to be gone because of ${gone_reason}, and its provider has lost nothing`))
    const own = ledger.operations.filter((one) => one.sandbox_id === id)
    const last = own.findLast(
      ({ kind, status }) => kind !== 'snapshot' && (status === 'failed' || status === 'succeeded'),
    )
    const expected = last?.status === 'succeeded' && last.outcome === 'done' ? STATE_AFTER[last.kind] : undefined
    if (expected !== undefined && expected !== state)
      found.push(flaw('lost', id, `${last?.kind} ${last?.id} was done last, and the sandbox is ${state}`))
    return found
  })
}

/** What lives in the ledger is at its provider, as it is said to be, and nothing else is there. */
function checkInstances({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const bySandbox = Map.groupBy(truth.instances, ({ sandboxId }) => sandboxId)
  for (const [sandboxId, instances] of bySandbox)
    if (instances.length > 1)
      found.push(flaw('doubled', sandboxId, `has ${instances.length} instances: ${instances.map(({ ref }) => ref)}`))
  const alive = new Map(ledger.sandboxes.filter(({ state }) => state !== 'gone').map((row) => [row.id, row]))
  for (const { sandboxId, ref, is, backend } of truth.instances) {
    const row = alive.get(sandboxId)
    if (row?.provider_ref !== ref || row.backend !== backend)
      found.push(flaw('leaked', sandboxId, `${ref} is ${is} at ${backend}, and no sandbox that lives has it`))
  }
  const checkpoints = new Map(ledger.checkpoints.map((row) => [row.id, row]))
  for (const row of alive.values()) {
    const { id, state, provider_ref, incarnation, checkpoint_id } = row
    const instance = truth.instances.find((one) => one.ref === provider_ref)
    if (!instance) found.push(flaw('leaked', id, `is ${state}, and ${row.backend} has no ${provider_ref}`))
    else if (['running', 'suspended'].includes(state) && instance.is !== state)
      found.push(flaw('lost', id, `is said to be ${state}, and at ${row.backend} it is ${instance.is}`))
    else if (state === 'running' && instance.incarnation !== incarnation)
      found.push(flaw('wrong', id, `runs as ${instance.incarnation}, and its row names ${incarnation}`))
    else if (state === 'suspended' && instance.checkpointRef !== checkpoints.get(checkpoint_id ?? '')?.provider_ref)
      found.push(flaw('wrong', id, `sleeps on ${instance.checkpointRef}, and its row names ${checkpoint_id}`))
  }
  return found
}

/** What somebody may rely on is there, and nothing is there that nobody may. */
function checkCheckpoints({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const sandboxes = new Map(ledger.sandboxes.map((row) => [row.id, row]))
  const there = new Set(truth.checkpoints.map(({ ref }) => ref))
  const rows = new Map(ledger.checkpoints.map((row) => [row.provider_ref, row]))
  for (const { id, sandbox_id, provider_ref, status, isPromised } of ledger.checkpoints) {
    const isReliedOn = isPromised || sandboxes.get(sandbox_id)?.checkpoint_id === id
    if (status === 'ready' && isReliedOn && !there.has(provider_ref))
      found.push(flaw('leaked', sandbox_id, `${id} is ready, and its provider has no ${provider_ref}`))
    if (status === 'missing' && isReliedOn)
      found.push(flaw('wrong', sandbox_id, `${id} is said to be missing, and its provider has lost nothing`))
  }
  for (const { backend, ref } of truth.checkpoints) {
    const row = rows.get(ref)
    const sandbox = sandboxes.get(row?.sandbox_id ?? '')
    const isOwned = row?.status === 'ready' && (row.isPromised || sandbox?.checkpoint_id === row.id)
    // What is left of a sandbox that was killed is kept for as long as it would have slept.
    const isKept = row?.status === 'ready' && sandbox?.state === 'gone'
    if (!isOwned && !isKept)
      found.push(flaw('leaked', row?.sandbox_id, `${backend} has ${ref}, and it is ${row?.status ?? 'in no row'}`))
  }
  return found
}

/** Each was started once at most, ended once, for a true reason, and what it printed is there, every line once and in order. */
function checkExecutions({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const ended = new Set<string>()
  for (const execution of ledger.executions) {
    const { id, sandbox_id, status, reason, exit_code, output, ended_at } = execution
    const plan = planOf(execution.command)
    if (!plan || ended_at === null) continue
    ended.add(plan.tag)
    const say = (kind: FlawKind, says: string) => found.push(flaw(kind, sandbox_id, `${id} (${plan.tag}) ${says}`))
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
