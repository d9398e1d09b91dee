import type { Answer, ExecutionAnswer } from '../fleet/fleet.ts'
import type { Checkpoint, Execution, Operation, OperationError, Sandbox } from '../fleet/views.ts'
import type { Why } from '../fleet/why.ts'
import { age, checkpointSize, duration, size, when } from '../fleet/words.ts'
import { quoteWord } from '../quote-word.ts'
import { harmless, sentence } from './harmless.ts'
import { printMetadata } from './metadata.ts'
import { type Colour, paint, STATE_COLOURS, STATUS_COLOURS } from './paint.ts'
import { type Cell, layTable } from './table.ts'
import { cut } from './width.ts'

/** How it is shown. Without `now`, no ages: they are another at every look. */
export type Style = { width?: number; hasColours?: boolean; now?: Date }

type Known = { sandbox: Sandbox; operations: Operation[]; executions: Execution[]; story: Why['story'] }

export function sandboxLines({ sandbox, operations, executions, story }: Known, style: Style = {}): string[] {
  const { id, goneReason, stateChangedAt, ttl, metadata } = sandbox
  const { idleMs, hardMs, retentionMs, ifUnsupported } = ttl
  const limits = Object.entries({ idle: idleMs, hard: hardMs, retention: retentionMs })
    .flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${duration(ms)}`]))
    .concat(ifUnsupported ? ['ended where it cannot be paused'] : [])
  return [
    `${paint(id, 'bold', style.hasColours ?? false)}  ${stateOf(sandbox, style)}${goneReason ? `: ${goneReason}` : ''} since ${moment(stateChangedAt, style)}`,
    ...facts(
      {
        Backend: harmless(sandbox.backend),
        Provider: sandbox.providerRef && harmless(sandbox.providerRef),
        Incarnation: sandbox.incarnation && harmless(sandbox.incarnation),
        Checkpoint: sandbox.checkpoint && checkpointOf(sandbox.checkpoint),
        Preview: sandbox.previewUrl && harmless(sandbox.previewUrl),
        Thread: sandbox.agentThreadId && harmless(sandbox.agentThreadId),
        Limits: limits.join(', '),
        Metadata: printMetadata(metadata),
        Created: moment(sandbox.createdAt, style),
        'Last active': moment(sandbox.lastActiveAt, style),
        Expires: sandbox.expiresAt && when(sandbox.expiresAt),
      },
      style,
    ),
    ...section('Operations, the newest first', operations.map(operationRow), style),
    ...section('Executions, the newest first', executions.map(executionRow), style),
    ...section(
      'History',
      story.map(({ at, text }) => [{ text: when(at) }, { text: harmless(text) }]),
      style,
    ),
    ...(story.length > 0 ? ['', cut(`All of it: sandman why ${id}`, style.width ?? Number.POSITIVE_INFINITY)] : []),
  ]
}

export function operationLines({ operation, sandbox }: Answer, style: Style = {}): string[] {
  const { id, kind, status, outcome, error, lastError, attempt, checkpointId } = operation
  const { createdAt, startedAt, settledAt } = operation
  return [
    `${paint(id, 'bold', style.hasColours ?? false)}  ${kind} ${statusOf(status, style)}${outcome ? `: ${outcome}` : ''}`,
    ...facts(
      {
        Sandbox: `${sandbox.id} ${sandbox.state}${sandbox.goneReason ? `: ${sandbox.goneReason}` : ''}`,
        Attempt: attempt > 0 ? String(attempt) : '',
        Error: error && errorOf(error),
        'Last error': error === null && lastError && errorOf(lastError),
        Checkpoint: checkpointId,
        Asked: moment(createdAt, style),
        Begun: startedAt && moment(startedAt, style),
        Settled: settledAt && moment(settledAt, style),
      },
      style,
    ),
  ]
}

export function executionLines({ execution, sandbox }: ExecutionAnswer, style: Style = {}): string[] {
  const { id, status, reason, exitCode, message, command, outputBytes, truncated, cancelRequestedAt } = execution
  const { createdAt, startedAt, endedAt, lastOutputAt, hardDeadlineAt } = execution
  return [
    `${paint(id, 'bold', style.hasColours ?? false)}  ${statusOf(status, style)}${reason ? `: ${reason}` : ''}`,
    ...facts(
      {
        Sandbox: `${sandbox.id} ${sandbox.state}${sandbox.goneReason ? `: ${sandbox.goneReason}` : ''}`,
        Command: printCommand(command),
        'Exit code': exitCode === null ? '' : String(exitCode),
        Message: message && sentence(message),
        Output: `${size(outputBytes)}${truncated ? ', and more that is not kept' : ''}: sandman logs ${id}`,
        Asked: moment(createdAt, style),
        Begun: startedAt && moment(startedAt, style),
        'Last output': lastOutputAt && moment(lastOutputAt, style),
        Cancelled: cancelRequestedAt && moment(cancelRequestedAt, style),
        Ended: endedAt && moment(endedAt, style),
        Deadline: endedAt === null && hardDeadlineAt && when(hardDeadlineAt),
      },
      style,
    ),
  ]
}

function operationRow({ id, kind, status, outcome, attempt, error, lastError, createdAt }: Operation): Cell[] {
  const trouble = error ?? lastError
  return [
    { text: id },
    { text: kind },
    { text: status, colour: STATUS_COLOURS[status] },
    { text: when(createdAt) },
    { text: [outcome, attempt > 1 && `attempt ${attempt}`, trouble && errorOf(trouble)].filter(Boolean).join(', ') },
  ]
}

function executionRow({ id, status, reason, exitCode, command, createdAt }: Execution): Cell[] {
  const how = [reason, exitCode !== null && `exit code ${exitCode}`].filter(Boolean).join(', ')
  return [
    { text: id },
    { text: status, colour: STATUS_COLOURS[status] },
    { text: when(createdAt) },
    { text: how },
    { text: printCommand(command) },
  ]
}

const errorOf = ({ errorType, message }: OperationError) => `${errorType}: ${sentence(message)}`

const printCommand = (command: string[] | null) =>
  command === null ? 'the agent that it was made with' : harmless(command.map(quoteWord).join(' '))

function checkpointOf({ id, kind, status, sizeBytes, verifiedAt }: Checkpoint): string {
  return [id, kind, status, checkpointSize(sizeBytes), verifiedAt && `seen ${when(verifiedAt)}`]
    .filter(Boolean)
    .join(', ')
}

const moment = (at: Date, { now }: Style) => when(at) + (now ? ` (${age(now.getTime() - at.getTime())})` : '')
const stateOf = ({ state }: Sandbox, { hasColours = false }: Style) => paint(state, STATE_COLOURS[state], hasColours)
const statusOf = (status: string, { hasColours = false }: Style) => paint(status, STATUS_COLOURS[status], hasColours)

/** A name and what there is to say; what is empty is left out. */
function facts(all: Record<string, string | false | null>, style: Style): string[] {
  const dim: Colour = 'dim'
  const rows = Object.entries(all).flatMap(([name, value]) =>
    value ? [[{ text: `  ${name}`, colour: dim }, { text: value }]] : [],
  )
  return layTable([{ title: '' }, { title: '', canShrink: true }], rows, { ...style, hasTitles: false })
}

function section(title: string, rows: readonly Cell[][], style: Style): string[] {
  if (rows.length === 0) return []
  const indented = rows.map(([first, ...rest]) => [{ ...first, text: `  ${first?.text}` }, ...rest])
  const columns = (rows[0] ?? []).map((_, nth, all) => ({ title: '', canShrink: nth >= all.length - 2 && nth > 0 }))
  return [
    '',
    paint(title, 'bold', style.hasColours ?? false),
    ...layTable(columns, indented, { ...style, hasTitles: false }),
  ]
}
