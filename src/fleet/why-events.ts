import type { EventRow, ExecutionRow, OperationRow } from '../db/schema.ts'
import { quoteWord } from '../quote-word.ts'
import type { ExecutionReason, ExecutionStatus } from '../sandbox/executions.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { FindingKind, Look } from '../sandbox/findings.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { asked, describe, FOUND, failed, goneBecause, look, looksOf, sentences, sizeOf } from './why-phrases.ts'
import { capital, duration, inWords, when } from './words.ts'

/** Of a command, as much as tells which one it was. */
const COMMAND_SHOWN = 80

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

/** An event, with the rows that it is about. */
export type Told = {
  event: EventRow
  detail: Detail
  operation: OperationRow | undefined
  execution: ExecutionRow | undefined
  /** Whether the story has an event of the operation's beginning, which says who asked for it. Otherwise its end does. */
  isBegun: boolean
}

/** What one event tells, in a few sentences. A newer release may write what this one has no words for. */
export function tellEvent(told: Told): string {
  return (TELL[told.event.type] ?? tellOther)(told)
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
    const command = execution?.command?.map(quoteWord).join(' ')
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

const tellOther = ({ event, detail }: Told) => sentences(capital(inWords(event.type)), describe(detail))

const REPLACED = 'It was replaced by a fresh one under the same id, which runs'

const isRespawn = ({ detail }: Told) => detail.outcome === 'respawned'

const hasFailed = ({ detail }: Told) => detail.status === 'failed' || detail.status === 'refused'

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

function swept({ detail: { found, ref, backend, looks = [] } }: Told, did: string): string {
  const what = [did, ref, backend && `at ${backend}`].filter(Boolean).join(' ')
  return sentences(`The sweeper ${what}${found ? `, because ${FOUND[found]}` : ''}`, ...looks.map(look))
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
      return `${capital(inWords(key))}: ${text}`
  }
}
