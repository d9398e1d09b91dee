import { describe, expect, test } from 'vitest'
import { endExecution, requestCancel, requestExecution, startExecution } from '../../src/db/executions.ts'
import type { ExecutionRow } from '../../src/db/schema.ts'
import {
  type Append,
  appendOutput,
  callRoll,
  claimUnfollowed,
  readOutput,
  recordBreaks,
  recordStop,
  type TakenExecution,
  takeExecution,
} from '../../src/db/streams.ts'
import { take as takeOperation } from '../../src/db/take.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { stoppedClock } from '../support/clock.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
useLedger((given) => {
  ;({ database, ledger } = given)
})
const at = (time: string) => stoppedClock(`2026-03-01T${time}Z`)
const OVERDUE_MS = 60_000

const take = (executionId: string, { backends = ['test'], clock = ledger.clock } = {}) =>
  takeExecution(database.db, { fleet: ledger.fleet, executionId, worker: 'worker', backends, clock })

/** One that runs, and is followed. */
async function follow(asked: Parameters<LedgerTest['ledger']['execute']>[1] = {}): Promise<ExecutionRow> {
  const { id } = await ledger.execute((await ledger.at('running')).id, asked)
  await startExecution(database.db, { id, incarnation: 'one', clock: ledger.clock })
  return ((await take(id)) as TakenExecution).execution
}

const piece = ({ id, fence }: ExecutionRow, from: number, text: string): Append => ({
  id,
  fence,
  from,
  bytes: Buffer.from(text),
  cursor: String(from + text.length),
  truncated: false,
})
const append = (...pieces: Append[]) => appendOutput(database.db, pieces, ledger.clock)
const kept = async ({ id }: ExecutionRow, from = 0) =>
  (await readOutput(database.db, { executionId: id, from, max: 100 })).map(
    ({ from_byte, bytes }) => `${from_byte}:${Buffer.from(bytes).toString()}`,
  )
const find = async (id: string): Promise<ExecutionRow> =>
  database.db.selectFrom('executions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

describe('output', () => {
  test('is kept with its count and its cursor, of many executions in one statement', async () => {
    const [one, two] = [await follow(), await follow()]
    expect(await append(piece(one, 0, 'hello '), piece(two, 0, 'bonjour'))).toEqual(new Set([one.id, two.id]))
    expect(await append(piece(one, 6, 'world'))).toEqual(new Set([one.id]))
    expect(await kept(one)).toEqual(['0:hello ', '6:world'])
    expect(await kept(two)).toEqual(['0:bonjour'])
    expect(await find(one.id)).toMatchObject({
      output_bytes: 11,
      cursor: '11',
      last_output_at: new Date('2026-03-01T12:00:00Z'),
    })
  })

  test('is kept once: what was kept already, or comes from further on, is not', async () => {
    const execution = await follow()
    await append(piece(execution, 0, 'hello'))
    expect(await append(piece(execution, 0, 'hello'))).toEqual(new Set())
    expect(await append(piece(execution, 7, 'world'))).toEqual(new Set())
    expect(await kept(execution)).toEqual(['0:hello'])
  })

  test('of whoever was overtaken is not kept, and the others of the same statement are', async () => {
    const [old, other] = [await follow(), await follow()]
    const { execution: young } = (await take(old.id)) as TakenExecution
    expect(await append(piece(old, 0, 'late'), piece(other, 0, 'x'))).toEqual(new Set([other.id]))
    expect(await append(piece(young, 0, 'mine'))).toEqual(new Set([old.id]))
    expect(await kept(old)).toEqual(['0:mine'])
  })

  test('sets the count of breaks back with the same write, whoever dies after it', async () => {
    const execution = await follow()
    await recordBreaks(database.db, { ...execution, breaks: 3 })
    expect(await find(execution.id)).toMatchObject({ breaks: 3 })
    await append(piece(execution, 0, 'x'))
    expect(await find(execution.id)).toMatchObject({ breaks: 0 })
    await take(execution.id)
    await recordBreaks(database.db, { ...execution, breaks: 5 })
    expect(await find(execution.id)).toMatchObject({ breaks: 0 })
  })

  test('of one that has ended is not kept', async () => {
    const execution = await follow()
    const end = { status: 'cancelled', reason: 'cancelled' } as const
    await endExecution(database.db, { id: execution.id, end, clock: ledger.clock })
    expect(await append(piece(execution, 0, 'late'))).toEqual(new Set())
  })

  test('is read from any byte on, with the piece that holds it first', async () => {
    const execution = await follow()
    await append(piece(execution, 0, 'abc'))
    await append(piece(execution, 3, 'def'))
    await append(piece(execution, 6, 'ghi'))
    expect(await kept(execution, 2)).toEqual(['0:abc', '3:def', '6:ghi'])
    expect(await kept(execution, 3)).toEqual(['3:def', '6:ghi'])
    expect(await kept(execution, 8)).toEqual(['6:ghi'])
    expect(await readOutput(database.db, { executionId: execution.id, from: 0, max: 1 })).toHaveLength(1)
  })

  test('any bytes are kept as they are', async () => {
    const execution = await follow()
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    await append({ ...piece(execution, 0, ''), bytes })
    const [row] = await readOutput(database.db, { executionId: execution.id, from: 0, max: 1 })
    expect(Buffer.from(row?.bytes ?? []).equals(bytes)).toBe(true)
  })

  test('is neither rewritten nor deleted, but by pruning', async () => {
    const execution = await follow()
    await append(piece(execution, 0, 'x'))
    const change = (statement: string) => database.pool.query(statement).then(String, (error) => error.constraint)
    expect(await change(`update sandman.output set bytes = 'y'`)).toBe('output_is_not_rewritten')
    expect(await change(`delete from sandman.output`)).toBe('output_is_only_pruned')
  })
})

describe('taking an execution', () => {
  test('is for workers that have its backend, and of executions that have not ended', async () => {
    const { id } = await ledger.execute((await ledger.at('running')).id)
    expect(await take(id, { backends: ['other'] })).toEqual({ notMineSince: new Date('2026-03-01T12:00:00Z') })
    expect(await take(`exe_${'0'.repeat(26)}`)).toBe('unknown')
    expect(await take(id)).toMatchObject({ execution: { fence: 1, taken_by: 'worker' } })
    const end = { status: 'cancelled', reason: 'cancelled' } as const
    await endExecution(database.db, { id, end, clock: ledger.clock })
    expect(await take(id)).toBe('ended')
  })

  test('does not move its deadline, and says when that has passed', async () => {
    const { id } = await ledger.execute((await ledger.at('running')).id, { hardDeadlineMs: 60_000 })
    expect(await take(id, { clock: at('12:00:59') })).toMatchObject({ isPastDeadline: false })
    expect(await take(id, { clock: at('12:01:00') })).toMatchObject({ isPastDeadline: true })
    expect((await find(id)).hard_deadline_at).toEqual(new Date('2026-03-01T12:01:00Z'))
  })

  test('of one that has not begun is looked at again when its deadline passes, if that is soon', async () => {
    const { id: sandboxId } = await ledger.at('running')
    const soon = await ledger.execute(sandboxId, { hardDeadlineMs: 20_000 })
    const later = await ledger.execute(sandboxId, { hardDeadlineMs: 600_000 })
    for (const { id } of [soon, later]) await take(id)
    expect((await find(soon.id)).ring_at).toEqual(new Date('2026-03-01T12:00:20Z'))
    expect((await find(later.id)).ring_at).toEqual(new Date('2026-03-01T12:01:00Z'))
  })
})

test('only whoever follows an execution says how it ended or that it began, and it ends once', async () => {
  const { db } = database
  const queued = await ledger.execute((await ledger.at('running')).id)
  const { fence } = ((await take(queued.id)) as TakenExecution).execution
  await take(queued.id) // by another one
  expect(await startExecution(db, { id: queued.id, fence, incarnation: 'one', clock: ledger.clock })).toBeUndefined()

  const first = await follow()
  const second = ((await take(first.id)) as TakenExecution).execution
  const end = { status: 'succeeded', reason: 'completed', exitCode: 0 } as const
  const say = ({ id, fence }: ExecutionRow) => endExecution(db, { id, end, fence, clock: ledger.clock })
  expect(await say(first)).toBeUndefined()
  expect(await find(first.id)).toMatchObject({ status: 'running' })
  expect(await say(second)).toMatchObject({ execution: { status: 'succeeded' } })
  expect(await say(second)).toBeUndefined()
})

test('nothing begins while an operation is at work, whatever that is', async () => {
  for (const kind of ['pause', 'snapshot', 'kill'] as const) {
    const { id } = await ledger.at('running')
    const execution = await ledger.execute(id)
    await ledger.ask(id, kind, { options: { if_busy: 'interrupt' } })
    const start = { id: execution.id, incarnation: 'one', clock: ledger.clock }
    expect(await startExecution(database.db, start)).toBeUndefined()
    expect(await find(execution.id)).toMatchObject({ status: 'queued', incarnation: null })
  }
})

describe('the roll call', () => {
  const call = async (execution: ExecutionRow, time: string) =>
    (await callRoll(database.db, [execution], { overdueMs: OVERDUE_MS, clock: at(time) }))[0]

  test('tells whose it is, and what is wished of it', async () => {
    const execution = await follow()
    expect(await call(execution, '12:00:01')).toEqual({
      id: execution.id,
      isMine: true,
      wish: null,
      overdue: false,
      moving: false,
    })
    await requestCancel(database.db, { fleet: ledger.fleet, id: execution.id }, ledger.clock)
    expect(await call(execution, '12:00:01')).toMatchObject({ isMine: true, wish: 'cancel' })
    await take(execution.id)
    expect(await call(execution, '12:00:01')).toMatchObject({ isMine: false })
  })

  test('tells of a hard deadline that has passed, and of one that is long past', async () => {
    const execution = await follow({ hardDeadlineMs: 600_000 })
    expect(await call(execution, '12:09:59')).toMatchObject({ wish: null, overdue: false })
    expect(await call(execution, '12:10:00')).toMatchObject({ wish: 'deadline', overdue: false })
    expect(await call(execution, '12:11:00')).toMatchObject({ wish: 'deadline', overdue: true })
  })

  test('tells of silence, counted from the last byte and from nothing else', async () => {
    const execution = await follow({ silenceMs: 300_000 })
    expect(await call(execution, '12:04:59')).toMatchObject({ wish: null })
    expect(await call(execution, '12:05:00')).toMatchObject({ wish: 'silence', overdue: false })
    // Attaching again, breaks and roll calls are not output.
    const { execution: again } = (await take(execution.id, { clock: at('12:05:30') })) as TakenExecution
    expect(await call(again, '12:05:31')).toMatchObject({ wish: 'silence', overdue: false })
    await appendOutput(database.db, [piece(again, 0, 'x')], at('12:05:00'))
    expect(await call(again, '12:09:59')).toMatchObject({ wish: null })
    expect(await call(again, '12:10:00')).toMatchObject({ wish: 'silence', overdue: false })
  })

  test('tells when whoever was stopped because of silence must have ended by now', async () => {
    const execution = await follow({ silenceMs: 300_000 })
    const stop = { id: execution.id, fence: execution.fence, reason: 'silence', clock: at('12:05:00') } as const
    expect(await recordStop(database.db, stop)).toBe(true)
    expect(await recordStop(database.db, { ...stop, reason: 'cancel', clock: at('12:06:00') })).toBe(true)
    expect(await find(execution.id)).toMatchObject({
      stop_reason: 'silence',
      stop_asked_at: new Date('2026-03-01T12:05:00Z'),
    })
    expect(await call(execution, '12:05:59')).toMatchObject({ overdue: false })
    expect(await call(execution, '12:06:00')).toMatchObject({ overdue: true })
    const cancelled = await follow()
    expect(await recordStop(database.db, { ...stop, id: cancelled.id, fence: cancelled.fence - 1 })).toBe(false)
    expect(await find(cancelled.id)).toMatchObject({ stop_reason: null })
    await recordStop(database.db, { ...stop, id: cancelled.id, fence: cancelled.fence, reason: 'cancel' })
    expect(await call(cancelled, '13:00:00')).toMatchObject({ overdue: false })
  })

  test('tells of an operation that pauses or ends its sandbox, but not of a pause that waits for it', async () => {
    const killed = await follow()
    await ledger.ask(killed.sandbox_id, 'kill')
    expect(await call(killed, '12:00:01')).toMatchObject({ moving: true })
    const awaited = await follow()
    await ledger.ask(awaited.sandbox_id, 'pause', { options: { if_busy: 'wait' } })
    expect(await call(awaited, '12:00:01')).toMatchObject({ moving: false })
    const copied = await follow()
    await ledger.ask(copied.sandbox_id, 'snapshot')
    expect(await call(copied, '12:00:01')).toMatchObject({ moving: false })
  })

  test('is heard by the bell: who is called is not rung for, and who is not called any more is', async () => {
    const execution = await follow()
    const unfollowed = (time: string) => claimUnfollowed(database.db, { fleet: ledger.fleet, max: 10, clock: at(time) })
    expect(await unfollowed('12:00:59')).toEqual([])
    await call(execution, '12:00:40')
    expect(await unfollowed('12:01:30')).toEqual([])
    expect(await unfollowed('12:01:40')).toEqual([execution.id])
    expect(await unfollowed('12:01:41')).toEqual([])
    expect(await unfollowed('12:01:50')).toEqual([execution.id])
  })

  test('one that nobody has taken is rung for again after ten seconds', async () => {
    const { id } = await ledger.execute((await ledger.at('running')).id)
    const unfollowed = (time: string) => claimUnfollowed(database.db, { fleet: ledger.fleet, max: 10, clock: at(time) })
    expect(await unfollowed('12:00:09')).toEqual([])
    expect(await unfollowed('12:00:10')).toEqual([id])
  })
})

describe('what a sandbox comes to ends what runs in it', () => {
  const settle = async (sandboxId: string, rest: Parameters<LedgerTest['ledger']['end']>[1]) => {
    const operation = await ledger.active(sandboxId)
    const { attempt } = await ledger.begin(operation?.id as string)
    return ledger.end(attempt, rest)
  }
  const CHECKPOINT = { kind: 'pause', providerRef: 'there' } as const

  test.each([
    [
      'suspended by a pause that interrupts',
      'pause',
      { status: 'succeeded', outcome: 'done', rest: { state: 'suspended', checkpoint: CHECKPOINT } },
      { status: 'cancelled', reason: 'cancelled' },
    ],
    [
      'killed',
      'kill',
      { status: 'succeeded', outcome: 'done', rest: { state: 'gone', reason: 'killed' } },
      { status: 'cancelled', reason: 'cancelled' },
    ],
    [
      'lost',
      'kill',
      {
        status: 'failed',
        error: failure('sandbox_expired', 'There is none.'),
        rest: { state: 'gone', reason: 'expired' },
      },
      { status: 'failed', reason: 'instance_lost' },
    ],
    [
      'running as another incarnation',
      'pause',
      {
        status: 'failed',
        error: failure('checkpoint_missing', 'There is none.'),
        rest: { state: 'running', incarnation: 'two' },
      },
      { status: 'failed', reason: 'agent_restarted' },
    ],
  ] as const)('%s', async (_what, kind, ending, end) => {
    const execution = await follow()
    await ledger.ask(execution.sandbox_id, kind, { options: { if_busy: 'interrupt' } })
    const settled = await settle(execution.sandbox_id, ending)
    expect(settled.ended).toEqual([execution.id])
    expect(settled.sandbox.open_executions).toBe(0)
    expect(await find(execution.id)).toMatchObject({ ...end, ring_at: null })
  })

  test('but not what runs on as it did, and not what has not begun', async () => {
    const execution = await follow()
    await ledger.ask(execution.sandbox_id, 'snapshot')
    const queued = await ledger.execute(execution.sandbox_id)
    const rest = { state: 'running', incarnation: 'one' } as const
    const settled = await settle(execution.sandbox_id, { status: 'succeeded', outcome: 'done', rest })
    expect(settled).toMatchObject({ ended: [], queued: [queued.id], sandbox: { open_executions: 2 } })
    expect(await find(execution.id)).toMatchObject({ status: 'running' })
  })

  test('an execution that is asked for while the settling waits for the lock is rung for all the same', async () => {
    const { id } = await ledger.at('suspended')
    const { operation } = await ledger.ask(id, 'resume')
    const { attempt } = await ledger.begin(operation.id)
    const asking = await database.db.startTransaction().execute()
    const { execution } = await requestExecution(asking, {
      fleet: ledger.fleet,
      sandboxId: id,
      hardDeadlineMs: 60_000,
      outputBytesMax: 1,
      clock: ledger.clock,
    })
    const rest = { state: 'running', incarnation: 'one' } as const
    const settling = ledger.end(attempt, { status: 'succeeded', outcome: 'done', rest })
    const blocked = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    await expect.poll(async () => (await database.pool.query(blocked)).rowCount).toBe(1)
    await asking.commit().execute()
    expect(await settling).toMatchObject({ queued: [execution.id], sandbox: { state: 'running', open_executions: 1 } })
  })

  test('an execution asked for during a pause is not ended by it, and is rung for', async () => {
    const { id } = await ledger.at('running')
    await ledger.ask(id, 'pause')
    const queued = await ledger.execute(id)
    const rest = { state: 'suspended', checkpoint: CHECKPOINT } as const
    const settled = await settle(id, { status: 'succeeded', outcome: 'done', rest })
    expect(settled).toMatchObject({ ended: [], queued: [queued.id] })
    expect(await find(queued.id)).toMatchObject({ status: 'queued' })
  })
})

test('an operation is taken from the queue of its kind, and from no other', async () => {
  const { id } = await ledger.at('running')
  const { operation } = await ledger.ask(id, 'snapshot')
  const asked = { fleet: ledger.fleet, operationId: operation.id, worker: 'worker', clock: ledger.clock }
  expect(await takeOperation(database.db, { ...asked, kinds: ['pause'] })).toEqual({
    attempt: undefined,
    because: 'other_kind',
  })
  expect(await takeOperation(database.db, { ...asked, kinds: ['snapshot'] })).toMatchObject({
    operation: { attempt: 1 },
  })
})

describe('a pause', () => {
  test('of a sandbox with executions is refused, queued or running, unless it says what to do about them', async () => {
    const { id } = await ledger.at('running')
    const { id: executionId } = await ledger.execute(id)
    expect(await ledger.ask(id, 'pause')).toMatchObject({
      answer: 'refused',
      operation: { error: { error_type: 'sandbox_busy', retryable: true } },
      sandbox: { state: 'running' },
    })
    await endExecution(database.db, {
      id: executionId,
      end: { status: 'cancelled', reason: 'cancelled' },
      clock: ledger.clock,
    })
    expect(await ledger.ask(id, 'pause')).toMatchObject({ answer: 'work' })
  })

  test('that waits in line is judged by what is so when its turn comes', async () => {
    const { id } = await ledger.at('running')
    await ledger.ask(id, 'snapshot')
    const waiting = await ledger.ask(id, 'pause')
    expect(waiting.answer).toBe('wait')
    await ledger.execute(id)
    await ledger.drain(id)
    const [, , pause] = await ledger.operations(id)
    expect(pause).toMatchObject({ id: waiting.operation.id, status: 'refused', error: { error_type: 'sandbox_busy' } })
  })

  test('that waits for executions is taken when the last of those that run has ended, and its ending says whom to ring for', async () => {
    const one = await follow()
    const { operation } = await ledger.ask(one.sandbox_id, 'pause', { options: { if_busy: 'wait' } })
    expect(await ledger.tryBegin(operation.id)).toEqual({ attempt: undefined, because: 'busy' })
    const end = { status: 'succeeded', reason: 'completed', exitCode: 0 } as const
    const ended = await endExecution(database.db, { id: one.id, end, clock: ledger.clock })
    expect(ended?.awaitedBy).toEqual({ operationId: operation.id, kind: 'pause' })
    expect(await ledger.tryBegin(operation.id)).toMatchObject({ operation: { attempt: 1 } })
  })

  test('that waits is taken, too, when something else was asked of the sandbox', async () => {
    const { sandbox_id } = await follow()
    const { operation } = await ledger.ask(sandbox_id, 'pause', { options: { if_busy: 'wait' } })
    await ledger.ask(sandbox_id, 'kill')
    expect(await ledger.tryBegin(operation.id)).toMatchObject({ operation: { attempt: 1 } })
  })
})
