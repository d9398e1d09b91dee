import type { Kind } from '../../src/sandbox/judge.ts'
import type { SettledState } from '../../src/sandbox/states.ts'
import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** Where each leads when it is done; a snapshot leads nowhere. */
const STATE_AFTER: Partial<Record<Kind, SettledState>> = {
  spawn: 'running',
  pause: 'suspended',
  resume: 'running',
  kill: 'gone',
  destroy: 'gone',
}

/** Where it can be true that there was nothing to do. */
const NOTHING_TO_DO: Record<Kind, readonly SettledState[]> = {
  spawn: ['running', 'suspended'],
  pause: ['suspended'],
  resume: ['running'],
  snapshot: ['suspended'],
  kill: ['suspended', 'gone'],
  destroy: ['gone'],
}

/** Here nothing is ever lost at a provider, and nothing has a limit: whoever is gone for another reason was declared dead alive. */
const TRUE_REASONS = ['killed', 'destroyed', 'spawn_failed']

/** Everything has come to rest, and where the operations of a sandbox have led, one after the other, is where it is. */
export function checkCourse(evidence: Evidence): Flaw[] {
  const { sandboxes, operations } = evidence.ledger
  const byId = Map.groupBy(operations, ({ sandbox_id }) => sandbox_id)
  return [...checkRest(evidence), ...sandboxes.flatMap((row) => checkSandbox(row, byId.get(row.id) ?? []))]
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

type Row = Evidence['ledger']['sandboxes'][number]

function checkSandbox({ id, state, gone_reason }: Row, operations: Evidence['ledger']['operations']): Flaw[] {
  const found: Flaw[] = []
  // Unknown after one that failed: that says itself what it has left.
  let is: SettledState | undefined
  let last = ''
  for (const { kind, status, outcome, id: operationId } of operations) {
    if (status === 'failed') is = undefined
    if (status !== 'succeeded') continue
    if (outcome === 'already_done') {
      if (is !== undefined && !NOTHING_TO_DO[kind].includes(is))
        found.push(flaw('wrong', id, `${kind} ${operationId} is said to be already done, after ${last}`))
      continue
    }
    is = STATE_AFTER[kind] ?? is
    last = `${kind} ${operationId}`
  }
  if (is !== undefined && is !== state) found.push(flaw('lost', id, `${last} was done last, and it is ${state}`))
  if (state === 'gone' && !TRUE_REASONS.includes(gone_reason ?? ''))
    found.push(flaw('wrong', id, `is said to be gone because of ${gone_reason}, and its provider has lost nothing`))
  return found
}
