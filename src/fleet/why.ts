import { type Life, readLife } from '../db/life.ts'
import type { Db } from '../db/pool.ts'
import type { EventRow, FindingRow, OperationRow, SandboxRow } from '../db/schema.ts'
import { QUEUE_OF_KIND } from '../queues/catalog.ts'
import type { State } from '../sandbox/states.ts'
import { type SandboxEvent, viewEvent } from './views.ts'
import { type Told, tellEvent } from './why-events.ts'
import { asked, FOUND, failed, goneBecause, look, sentences, sizeOf } from './why-phrases.ts'
import { count, when } from './words.ts'

export type Why = {
  sandboxId: string
  /** One sentence: where it is now, since when, and because of what. */
  answer: string
  /** The oldest first, each with the event that it tells of; what is suspected, or under way, is none yet. */
  story: { at: Date; text: string; event?: SandboxEvent }[]
  /** False when it begins later than the sandbox did: older events were pruned, are too many, or never were. */
  isComplete: boolean
}

/** More than anybody reads. The whole history is in `fleet.events`. */
const EVENTS_MAX = 500
const FINDINGS_MAX = 100

/** Undefined when the fleet has no such sandbox. */
export async function findWhy(db: Db, asked: { fleet: string; id: string }): Promise<Why | undefined> {
  const life = await readLife(db, { ...asked, eventsMax: EVENTS_MAX, findingsMax: FINDINGS_MAX })
  return life && tellWhy(life)
}

export function tellWhy(life: Life): Why {
  const { sandbox, events } = life
  const operations = new Map(life.operations.map((operation) => [operation.id, operation]))
  const executions = new Map(life.executions.map((execution) => [execution.id, execution]))
  const begun = new Set(events.filter(({ type }) => type.endsWith('_began')).map((event) => event.operation_id))
  const tolds = events.map((event): Told => {
    const { detail, operation_id, execution_id } = event
    const operation = operations.get(operation_id ?? '')
    return { event, detail, operation, execution: executions.get(execution_id ?? ''), isBegun: begun.has(operation_id) }
  })
  const atWork = operations.get(sandbox.operation_id ?? '')
  const story: Why['story'] = [
    ...tolds.map((told) => ({
      at: told.event.at,
      text: tellEvent(told),
      event: viewEvent(told.event),
    })),
    ...life.findings.filter(({ acted_at }) => acted_at === null).map(suspicion),
    ...(atWork ? [present(sandbox, atWork)] : []),
  ]
  const [first] = events
  return {
    sandboxId: sandbox.id,
    answer: plain(answerOf(life, tolds)),
    story: story.map((line) => ({ ...line, text: plain(line.text) })).sort((a, b) => a.at.getTime() - b.at.getTime()),
    // Behind the newest there is at most the last state change, with a gap before them.
    isComplete:
      first !== undefined && first.from_state === null && first.to_state !== null && events.length <= EVENTS_MAX,
  }
}

const IS: Record<State, string> = {
  running: 'has been running',
  suspended: 'has been asleep',
  gone: 'has been gone',
  provisioning: 'has been coming to life',
  pausing: 'has been going to sleep',
  resuming: 'has been waking',
  snapshotting: 'has been getting copied',
  killing: 'has been ending',
}

/** How a sandbox comes to rest where it was not before. What has failed in between, or was copied, has not moved it. */
const ARRIVALS: readonly EventRow['type'][] = ['spawned', 'adopted', 'resumed', 'paused', 'ended']

function answerOf({ sandbox, checkpoint }: Life, tolds: readonly Told[]): string {
  const { id, state, suspended_at, state_changed_at } = sandbox
  const last = tolds.findLast(({ event }) => event.to_state !== null)
  const arrival = tolds.findLast(({ event }) => ARRIVALS.includes(event.type))
  const hasStayed = arrival?.event.to_state === state
  const since = state === 'suspended' ? suspended_at : hasStayed ? arrival.event.at : undefined
  const on = checkpoint ? `, resting on checkpoint ${checkpoint.id}${sizeOf(checkpoint.size_bytes)}` : ''
  const because = reasonOf(sandbox, hasStayed ? arrival : last)
  const then = hasStayed && last?.detail.error && last !== arrival ? `; then ${reasonOf(sandbox, last)}` : ''
  return sentences(`${id} ${IS[state]} since ${when(since ?? state_changed_at)}${on}: ${because}${then}`)
}

function reasonOf({ state, gone_reason }: SandboxRow, told: Told | undefined): string {
  const ground = state === 'gone' ? goneBecause(gone_reason ?? undefined) : undefined
  if (!told?.operation) {
    return (
      ground ?? (told?.event.type === 'adopted' ? 'it was taken over like that' : 'how it came to that is not kept')
    )
  }
  const request = asked(told.operation, ground ? 'had asked' : 'asked')
  const { error } = told.detail
  return `${ground ? `${ground}; ` : ''}${request}${error ? `, and that ${failed(error)}` : ''}`
}

/** What is happening right now. */
function present({ backend, waiting, open_executions }: SandboxRow, operation: OperationRow): Why['story'][number] {
  const { attempt, kind, options, last_error, taken_at, taken_by, started_at, created_at } = operation
  const isAwaiting = options.if_busy === 'wait' && open_executions > 0
  const text = sentences(
    taken_at
      ? `The ${kind} is being worked on: attempt ${attempt} was begun by ${taken_by}`
      : `The ${kind} is still to be done: no worker has begun it`,
    !taken_at &&
      !isAwaiting &&
      `That takes one that has the backend ${backend} and works on the queue ${QUEUE_OF_KIND[kind].name}`,
    isAwaiting && `It is to wait until what runs there has ended: ${count(open_executions, 'execution')}`,
    last_error && `An attempt ${failed(last_error)}`,
    waiting > 0 && `Behind it in line: ${count(waiting, 'operation')}`,
  )
  return { at: taken_at ?? started_at ?? created_at, text }
}

function suspicion({ kind, ref, backend, looks, look_at, first_seen_at }: FindingRow): Why['story'][number] {
  const again = look_at && `It looks again on ${when(look_at)}, and does nothing before`
  const text = sentences(`The sweeper suspects that ${FOUND[kind]} (${ref} at ${backend})`, ...looks.map(look), again)
  return { at: first_seen_at, text }
}

/** What a provider or a sandbox has said may hold line breaks, and what moves a terminal's cursor. */
function plain(text: string): string {
  return text.replace(/[\s\p{Cc}]+/gu, ' ')
}
