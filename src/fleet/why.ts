import { listNewestEvents } from '../db/events.ts'
import { listFindings } from '../db/findings.ts'
import type { Db } from '../db/pool.ts'
import { findSandbox } from '../db/sandboxes.ts'
import type { CheckpointRow, EventRow, ExecutionRow, FindingRow, OperationRow, SandboxRow } from '../db/schema.ts'
import type { ExecutionReason, ExecutionStatus } from '../sandbox/executions.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { FindingKind, Look } from '../sandbox/findings.ts'
import type { Kind } from '../sandbox/judge.ts'
import type { LimitName } from '../sandbox/limits.ts'
import type { GoneReason, State } from '../sandbox/states.ts'
import { type SandboxEvent, viewEvent } from './views.ts'
import { count, duration, when } from './words.ts'

export type Why = {
  sandboxId: string
  /** One sentence: where it is now, since when, and because of what. */
  answer: string
  /** The oldest first, each with the event that it tells of; what is suspected, or under way, is none yet. */
  story: { at: Date; text: string; event?: SandboxEvent }[]
  /** False when it begins later than the sandbox did: older events were pruned, are too many, or never were. */
  isComplete: boolean
}

type Known = {
  sandbox: SandboxRow
  /** What it can be resumed from. */
  checkpoint: CheckpointRow | undefined
  events: readonly EventRow[]
  operations: readonly OperationRow[]
  executions: readonly ExecutionRow[]
  findings: readonly FindingRow[]
}

/** More than anybody reads. The whole history is in `fleet.events`. */
const EVENTS_MAX = 500
const FINDINGS_MAX = 100
const COMMAND_SHOWN = 80

/** Undefined when the fleet has no such sandbox. All is read as it was at one moment, or the end would not fit the beginning. */
export async function findWhy(db: Db, { fleet, id }: { fleet: string; id: string }): Promise<Why | undefined> {
  const reading = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
  const known = await reading.execute(async (transaction): Promise<Known | undefined> => {
    const found = await findSandbox(transaction, { fleet, id })
    if (!found) return undefined
    const events = await listNewestEvents(transaction, id, EVENTS_MAX)
    const findings = await listFindings(transaction, { fleet, sandboxId: id, max: FINDINGS_MAX })
    const operationIds = [found.sandbox.operation_id, ...events.map((event) => event.operation_id)]
    const executionIds = events.map((event) => event.execution_id)
    const operations = await transaction
      .selectFrom('operations')
      .selectAll()
      .where('id', 'in', [...new Set(operationIds)])
      .execute()
    const executions = await transaction
      .selectFrom('executions')
      .selectAll()
      .where('id', 'in', [...new Set([null, ...executionIds])]) // null, because a list must not be empty
      .execute()
    return { ...found, events, operations, executions, findings }
  })
  return known && tellWhy(known)
}

export function tellWhy(known: Known): Why {
  const { sandbox, events } = known
  const operations = new Map(known.operations.map((operation) => [operation.id, operation]))
  const executions = new Map(known.executions.map((execution) => [execution.id, execution]))
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
      text: (TELL[told.event.type] ?? tellOther)(told),
      event: viewEvent(told.event),
    })),
    ...known.findings.filter(({ acted_at }) => acted_at === null).map(suspicion),
    ...(atWork ? [present(sandbox, atWork)] : []),
  ]
  const [first] = events
  return {
    sandboxId: sandbox.id,
    answer: plain(answerOf(known, tolds)),
    story: story.map((line) => ({ ...line, text: plain(line.text) })).sort((a, b) => a.at.getTime() - b.at.getTime()),
    // Behind the newest there is at most the last state change, with a gap before them.
    isComplete:
      first !== undefined && first.from_state === null && first.to_state !== null && events.length <= EVENTS_MAX,
  }
}

/** For a terminal: the answer, and a line for every event. */
export function printWhy({ answer, story, isComplete }: Why): string {
  const gap = isComplete ? [] : ['Not all of its history is told here: the rest is not kept, or is too much.']
  return [answer, '', ...gap, ...story.map(({ at, text }) => `${when(at)}  ${text}`)].join('\n')
}

/** What the statements that write events put into `detail`. Of rows that were imported, nothing has to be there. */
type Detail = {
  status?: ExecutionStatus | OperationRow['status']
  outcome?: OperationRow['outcome']
  reason?: GoneReason | ExecutionReason
  error?: Failure
  checkpoint_id?: string
  evidence?: Record<string, unknown>
  exit_code?: number
  message?: string
  found?: FindingKind
  backend?: string
  ref?: string
  looks?: Look[]
}

type Told = {
  event: EventRow
  detail: Detail
  operation: OperationRow | undefined
  execution: ExecutionRow | undefined
  /** Who asked is told where the operation began; or at its end, if how it began is not kept. */
  isBegun: boolean
}

const TELL: Record<EventRow['type'], (told: Told) => string> = {
  spawn_began: (told) => began(told, 'making it began'),
  pause_began: (told) => began(told, 'pausing began'),
  resume_began: (told) => began(told, 'waking began'),
  snapshot_began: (told) => began(told, 'copying began'),
  teardown_began: (told) => began(told, 'ending it began'),
  respawn_began: (told) => began(told, 'replacing it began'),

  spawned: (told) => settled(told, isRespawn(told) ? REPLACED : 'It came to life, and runs'),
  adopted: (told) => settled(told, `It was taken over, ${told.event.to_state === 'suspended' ? 'asleep' : 'running'}`),
  paused: (told) =>
    settled(told, told.event.from_state === 'snapshotting' ? 'It was found asleep' : 'It was put to sleep'),
  resumed: (told) =>
    settled(
      told,
      hasFailed(told) ? 'It could not be made ready, and runs' : isRespawn(told) ? REPLACED : 'It is awake',
    ),
  snapshot_ended: (told) =>
    settled(told, hasFailed(told) ? 'It could not be copied, and runs on' : 'It was copied, and runs on'),
  pause_failed: (told) => settled(told, 'It could not be paused, and runs'),
  resume_failed: (told) => settled(told, 'It could not be woken, and sleeps on'),
  teardown_failed: (told) =>
    settled(told, `It was not ended, and ${told.event.to_state === 'suspended' ? 'sleeps' : 'runs'} on`),
  ended: (told) => settled(told, `It is gone: ${goneBecause(told.detail.reason)}`),

  execution_queued: ({ event, execution }) => {
    const command = execution?.command?.join(' ')
    const shown = command && (command.length <= COMMAND_SHOWN ? command : `${command.slice(0, COMMAND_SHOWN)}…`)
    const what = !execution
      ? ''
      : shown === undefined
        ? ', to follow the agent that it was made with'
        : `, to run: ${shown}`
    return sentences(`Execution ${event.execution_id} was asked for${what}`)
  },
  execution_started: ({ event }) => sentences(`Execution ${event.execution_id} began`),
  execution_ended: ({ event, detail }) => {
    const { status, reason, exit_code, message } = detail
    const how = status === 'succeeded' ? 'succeeded' : status === 'cancelled' ? 'was cancelled' : 'failed'
    const code = typeof exit_code === 'number' ? ` with exit code ${exit_code}` : ''
    const because = reason && reason in ENDED ? `: ${ENDED[reason as ExecutionReason]}` : ''
    // Of one that ended with what it ran in, the next line says more than its message.
    return sentences(`Execution ${event.execution_id} ${how}${code}${because}`, event.operation_id === null && message)
  },

  instance_swept: (told) => swept(told, 'ended the instance'),
  checkpoint_swept: (told) => swept(told, 'deleted the checkpoint'),
  checkpoint_lost: ({ detail: { ref, backend, looks = [] } }) => {
    const which = ['checkpoint', ref, backend && `at ${backend}`].filter(Boolean).join(' ')
    return sentences(`The sweeper saw that the ${which} is not there, or not whole`, ...looks.map(look))
  },
}

/** A newer release may write what this one has no words for. */
const tellOther = ({ event, detail }: Told) => sentences(capital(words(event.type)), describe(detail))

const REPLACED = 'It was replaced by a fresh one under the same id, which runs'

const isRespawn = ({ detail }: Told) => detail.outcome === 'respawned'
const hasFailed = ({ detail }: Told) => detail.status === 'failed' || detail.status === 'refused'

const GONE: Record<GoneReason, string> = {
  killed: 'it was killed, as was asked',
  destroyed: 'it was destroyed with its checkpoints, as was asked',
  expired: 'its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there',
  pause_unsupported: 'its backend cannot pause, and whoever asked for the pause had said to end it then',
  checkpoint_missing: 'there is no checkpoint that it could be woken from',
  checkpoint_corrupt: 'the checkpoint that it should be woken from is not whole',
  instance_lost: 'its provider has lost it, and nothing of it can be resumed',
  spawn_failed: 'it could not be made',
  replaced: 'a fresh one took its place',
}

const ENDED: Record<ExecutionReason, string> = {
  completed: 'its agent ended by itself',
  error: 'its agent ended with an error, or could not be started',
  oom_killed: 'the system killed its agent for its use of memory',
  signal: 'a signal ended its agent',
  agent_restarted: 'its agent, or the whole sandbox, was started anew in the middle of it',
  instance_lost: 'the sandbox was lost, or its provider put it to sleep',
  stream_lost: 'its output ended at once, again and again',
  deadline_exceeded: 'it took longer than it may, or was silent for longer than it may',
  cancelled: 'somebody cancelled it, or paused or ended the sandbox',
}

const LIVED: Record<LimitName, string> = { hard: 'had lived', retention: 'had slept', idle: 'had idled' }

const FOUND: Record<FindingKind, string> = {
  instance_missing: 'it should be there, and its provider has nothing of it',
  checkpoint_missing: 'a checkpoint of it is missing, or cannot be read',
  instance_unowned: 'an instance carries its label, and belongs to no sandbox that lives',
  checkpoint_unowned: 'a checkpoint carries its label, and nothing rests on it and nobody was promised it',
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

/** Why an execution asks for this. */
const NEEDED: Partial<Record<Kind, string>> = {
  resume: ', because it has to run there',
  kill: ', because it found it lost',
  pause: ', because it found it asleep',
}

/** How a sandbox comes to rest where it was not before. What has failed in between, or was copied, has not moved it. */
const ARRIVALS: readonly EventRow['type'][] = ['spawned', 'adopted', 'resumed', 'paused', 'ended']

function answerOf({ sandbox, checkpoint }: Known, tolds: readonly Told[]): string {
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

function began({ operation }: Told, begins: string): string {
  if (!operation) return sentences(capital(begins))
  const { created_at, started_at } = operation
  const hasWaited = started_at !== null && when(created_at) !== when(started_at)
  const waited = hasWaited ? `that waited in line from ${when(created_at)} on, and then ` : ''
  return sentences(`${capital(asked(operation))}; ${waited}${begins}`, ...looksOf(operation))
}

function settled({ detail, operation, isBegun }: Told, what: string): string {
  const { error, checkpoint_id, evidence = {}, looks = [] } = detail
  const on = checkpoint_id && `${operation?.kind === 'snapshot' ? 'The copy' : 'Its checkpoint'} is ${checkpoint_id}`
  // What was lost and could not be replaced is the error itself.
  const shown = Object.entries(evidence).filter(([key, value]) => key !== 'lost' || value !== error?.message)
  return sentences(
    what,
    ...(operation && !isBegun ? [capital(asked(operation, 'had asked')), ...looksOf(operation)] : []),
    error && `The ${operation?.kind ?? 'operation'} ${failed(error)}`,
    operation && attempts(operation, error),
    on,
    ...shown.map(([key, value]) => evident(key, value)),
    ...looks.map(look),
  )
}

/** Who asked for what, and by what right. */
function asked({ kind, options, cause }: OperationRow, verb: 'asked' | 'had asked' = 'asked'): string {
  const what = wish(kind, options)
  switch (cause?.by) {
    case undefined:
      return `an app ${verb} ${what}`
    case 'reaper': {
      const whose = cause.of === 'sandbox' ? 'its own' : "its fleet's"
      const limit = `${duration(cause.limit_ms)}, counted from ${when(cause.since)}`
      return `the reaper ${verb} ${what}, because it ${LIVED[cause.limit]} for as long as ${whose} limit allows (${limit})`
    }
    case 'sweeper':
      return `the sweeper ${verb} ${what}, because ${FOUND[cause.found]} (${cause.ref})`
    case 'lease':
      return `its provider had put it to sleep when its time there was over (${when(cause.ends_at)}), so it was ${verb} ${what}`
    case 'execution':
      return `execution ${cause.execution_id} ${verb} ${what}${NEEDED[kind] ?? ''}`
  }
}

function wish(kind: Kind, options: OperationRow['options']): string {
  switch (kind) {
    case 'spawn': {
      const { adopt, from } = options as { adopt?: { ref?: string }; from?: string }
      return adopt?.ref ? `to take over ${adopt.ref}` : from ? `to make it from ${from}` : 'to make it'
    }
    case 'pause':
      if (options.only === 'asleep') return 'to write down that it sleeps'
      return options.if_unsupported === 'kill' ? 'to pause it, or to end it if its backend cannot' : 'to pause it'
    case 'resume':
      return options.if_lost === 'respawn' ? 'to wake it, or to replace it if it is lost' : 'to wake it'
    case 'snapshot':
      return options.name === undefined ? 'to copy it' : `to copy it as "${options.name}"`
    case 'kill':
    case 'destroy':
      return options.only === 'lost' ? 'to end it if it is lost' : `to ${kind} it`
  }
}

/** What is happening right now. */
function present({ waiting, open_executions }: SandboxRow, operation: OperationRow): Why['story'][number] {
  const { attempt, kind, options, last_error, taken_at, taken_by, started_at, created_at } = operation
  const isAwaiting = options.if_busy === 'wait' && open_executions > 0
  const text = sentences(
    taken_at
      ? `The ${kind} is being worked on: attempt ${attempt} was begun by ${taken_by}`
      : `The ${kind} is still to be done: no worker has begun it`,
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

function swept({ detail: { found, ref, backend, looks = [] } }: Told, did: string): string {
  const what = [did, ref, backend && `at ${backend}`].filter(Boolean).join(' ')
  return sentences(`The sweeper ${what}${found ? `, because ${FOUND[found]}` : ''}`, ...looks.map(look))
}

/** What the sweeper had seen before it asked. */
function looksOf({ cause }: OperationRow): string[] {
  return cause?.by === 'sweeper' ? cause.looks.map(look) : []
}

function look({ at, place, asked, saw }: Look, index: number): string {
  return `Look ${index + 1}, on ${when(at)} at ${place}: asked for ${asked}, and saw that ${saw}`
}

function goneBecause(reason: Detail['reason']): string {
  return reason && reason in GONE ? GONE[reason as GoneReason] : 'the reason is not kept'
}

function failed({ error_type, message }: Failure): string {
  return `failed as ${words(error_type)}: ${withoutStop(message)}`
}

function attempts({ attempt, failures, last_error }: OperationRow, error: Failure | undefined): string | undefined {
  if (attempt <= 1) return undefined
  const cutOff = attempt - 1 - failures
  const lost = cutOff > 0 ? `, of which ${cutOff} ${cutOff === 1 ? 'was' : 'were'} cut off` : ''
  const earlier = last_error && last_error.message !== error?.message ? `; an earlier one ${failed(last_error)}` : ''
  return `It took ${attempt} attempts${lost}${earlier}`
}

/** What a job has seen at the provider, as it wrote it down. */
function evident(key: string, value: unknown): string {
  const text = describe(value)
  const { ref, is, sizeBytes, why, asked_ms, ends_at } = Object(value) as Record<string, unknown>
  switch (key) {
    case 'seen':
      if (text === 'absent') return 'Its provider showed nothing of it'
      return `Its provider showed it ${text === 'suspended' ? 'asleep' : text}`
    case 'checkpoint': {
      const condition =
        is === 'ready' ? `whole${sizeOf(sizeBytes)}` : `${describe(is)}${why ? `: ${describe(why)}` : ''}`
      return `The checkpoint ${describe(ref)} was seen to be ${condition}`
    }
    case 'lease': {
      const end = ends_at ? `ends it on ${when(String(ends_at))}` : 'names no end'
      return `Its time-to-live was set to ${duration(Number(asked_ms))}, and its provider ${end}`
    }
    case 'lingering':
      return `What lingered in it could not be ended: ${text}`
    case 'preview':
      return `It has no preview: ${text}`
    case 'left_over':
      return `Something of it may be left over: ${text}`
    case 'lost':
      return `It had been lost: ${text}`
    case 'put_back':
      return `It could not be put back to sleep: ${text}`
    default:
      return `${capital(words(key))}: ${text}`
  }
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.map(describe).join(', ')
  if (typeof value !== 'object') return String(value)
  return Object.entries(value)
    .map(([key, inner]) => `${words(key)} ${describe(inner)}`)
    .join(', ')
}

function sentences(...parts: (string | false | null | undefined)[]): string {
  return parts
    .filter((part) => part)
    .map((part) => `${withoutStop(part as string)}.`)
    .join(' ')
}

function withoutStop(text: string): string {
  return text.replace(/[\s.]+$/, '')
}

/** What a provider or a sandbox has said may hold line breaks, and what moves a terminal's cursor. */
function plain(text: string): string {
  return text.replace(/[\s\p{Cc}]+/gu, ' ')
}

function words(name: string): string {
  return name.replaceAll('_', ' ')
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function sizeOf(bytes: unknown): string {
  if (typeof bytes !== 'number') return ''
  const power = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10))
  const unit = ['', 'KiB', 'MiB', 'GiB', 'TiB'][power]
  return ` (${unit ? `${Math.round((bytes / 1024 ** power) * 10) / 10} ${unit}` : count(bytes, 'byte')})`
}
