import type { OperationRow, SandboxRow } from '../../src/db/schema.ts'
import { judge, PLACES } from '../../src/sandbox/judge.ts'
import { isSettled, type State } from '../../src/sandbox/states.ts'
import type { Check } from './all.ts'

type Move = { at: Date; to: State; operationId: string | null }

/** Every request has one answer: the one that was told, and one that the table of judgements gives. */
export const checkAnswers: Check = async ({ db, told, found }) => {
  const operations = await db.selectFrom('operations').selectAll().orderBy('id').execute()
  const byId = new Map(operations.map((operation) => [operation.id, operation]))
  for (const id of told.operations)
    if (!byId.has(id))
      found('nothing that was accepted is lost', id, `${id} was accepted, and there is no such operation`)
  for (const operation of operations) if (told.answers.has(operation.id)) told.settled(operation)
  const executions = await db.selectFrom('executions').selectAll().orderBy('id').execute()
  for (const execution of executions) if (told.ends.has(execution.id)) told.ended(execution)

  const sandboxes = new Map((await db.selectFrom('sandboxes').selectAll().execute()).map((row) => [row.id, row]))
  const moves = await movesOf(db)
  for (const operation of operations) {
    if (operation.settled_at === null) continue
    const history = moves.get(operation.sandbox_id) ?? []
    const sandbox = sandboxes.get(operation.sandbox_id) as SandboxRow
    const isRight = operation.attempt === 0 ? isJudged(operation, sandbox, history) : isDone(operation, history)
    if (isRight) continue
    const { id, kind, status, outcome, error, settled_at } = operation
    const answer = `${status} ${outcome ?? error?.error_type}`
    const states = statesAt(history, settled_at).join(' or ')
    found(
      'an answer agrees with the table',
      sandbox.id,
      `${kind} ${id} was answered "${answer}" while it was ${states}`,
    )
  }
}

async function movesOf(db: Parameters<Check>[0]['db']): Promise<Map<string, Move[]>> {
  const events = await db.selectFrom('events').selectAll().where('to_state', 'is not', null).orderBy('id').execute()
  const moves = new Map<string, Move[]>()
  for (const { sandbox_id, at, to_state, operation_id } of events) {
    const own = moves.get(sandbox_id) ?? []
    own.push({ at, to: to_state as State, operationId: operation_id })
    moves.set(sandbox_id, own)
  }
  return moves
}

/** Where it was at that moment; several, if it moved in that very millisecond. */
function statesAt(moves: readonly Move[], at: Date): State[] {
  return moves.flatMap(({ at: from, to }, nth) => {
    const next = moves[nth + 1]
    return from <= at && (!next || next.at >= at) ? [to] : []
  })
}

/** Answered without any work. */
function isJudged(
  { kind, options, settled_at, outcome, error }: OperationRow,
  sandbox: SandboxRow,
  moves: Move[],
): boolean {
  const able = kind === 'pause' ? sandbox.can_pause : kind === 'snapshot' ? sandbox.can_snapshot : true
  return statesAt(moves, settled_at as Date).some((state) =>
    [true, false].some((busy) => {
      const circumstances = { able, busy }
      const verdicts = isSettled(state)
        ? [judge({ kind, options }, state, circumstances)]
        : PLACES.map((place) => judge({ kind, options }, state, circumstances, place))
      return verdicts.some((verdict) =>
        verdict.answer === 'refused' ? verdict.because === error?.error_type : verdict.answer === outcome,
      )
    }),
  )
}

const ENDS: Record<OperationRow['kind'], readonly State[]> = {
  spawn: ['running', 'suspended'],
  pause: ['suspended', 'gone'],
  resume: ['running'],
  snapshot: ['running', 'suspended'],
  kill: ['gone'],
  destroy: ['gone'],
}

/** Done with work: it has brought its sandbox where it was to be brought. */
function isDone({ id, kind, outcome }: OperationRow, moves: readonly Move[]): boolean {
  if (outcome === null) return true
  const last = moves.filter(({ operationId, to }) => operationId === id && isSettled(to)).at(-1)
  return last !== undefined && ENDS[kind].includes(last.to)
}
