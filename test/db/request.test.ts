import { randomUUID } from 'node:crypto'
import { Kysely, PostgresDialect } from 'kysely'
import { describe, expect, test } from 'vitest'
import { runningClock } from '../../src/clock.ts'
import { listEvents } from '../../src/db/events.ts'
import { type Database, SCHEMA } from '../../src/db/schema.ts'
import { KINDS, LINE_MAX } from '../../src/sandbox/judge.ts'
import { SETTLED_STATES } from '../../src/sandbox/states.ts'
import { endingOf, type LedgerTest, ledgerOn, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

describe('a spawn', () => {
  test('is a sandbox and its operation at once', async () => {
    const { answer, sandbox, operation } = await ledger.spawn({ metadata: { owner: 'me' }, agentThreadId: 'thread' })
    expect(answer).toBe('work')
    expect(sandbox).toMatchObject({
      fleet: ledger.fleet,
      state: 'provisioning',
      operation_id: operation.id,
      metadata: { owner: 'me' },
      agent_thread_id: 'thread',
    })
    expect(operation).toMatchObject({ kind: 'spawn', status: 'active', sandbox_id: sandbox.id, attempt: 0 })
    expect(await listEvents(database.db, sandbox.id)).toMatchObject([
      { type: 'spawn_began', from_state: null, to_state: 'provisioning', operation_id: operation.id },
    ])
  })

  test('that fails leaves a sandbox that is gone, and says why', async () => {
    const spawned = await ledger.spawn()
    const { sandbox, operation } = await ledger.perform(spawned.operation.id, 'fails')
    expect(sandbox).toMatchObject({
      state: 'gone',
      gone_reason: 'spawn_failed',
      gone_at: new Date('2026-03-01T12:00:00Z'),
    })
    expect(operation.status).toBe('failed')
  })
})

describe('ids', () => {
  test('are prefixed and sort by creation, also within a millisecond', async () => {
    const ids: { sandbox: string; operation: string }[] = []
    for (const advanceMs of [0, 0, 0, 1, 0, 60_000, 0]) {
      clock.advance(advanceMs)
      const { sandbox, operation } = await ledger.spawn()
      ids.push({ sandbox: sandbox.id, operation: operation.id })
    }
    const sandboxes = ids.map(({ sandbox }) => sandbox)
    const operations = ids.map(({ operation }) => operation)
    expect(sandboxes.toSorted()).toEqual(sandboxes)
    expect(operations.toSorted()).toEqual(operations)
    expect(new Set([...sandboxes, ...operations]).size).toBe(14)
    for (const id of sandboxes) expect(id).toMatch(/^sbx_[0-9a-f]{26}$/)
    for (const id of operations) expect(id).toMatch(/^op_[0-9a-f]{26}$/)
  })

  test('sort by the clock of the database while time runs', async () => {
    const running = ledgerOn(database.db, { fleet: ledger.fleet, clock: runningClock })
    const earlier = await running.spawn()
    const later = await running.spawn()
    expect(earlier.sandbox.id < later.sandbox.id).toBe(true)
    const madeAtMs = Number.parseInt(later.sandbox.id.slice(4, 16), 16)
    expect(madeAtMs).toBe(later.sandbox.created_at.getTime())
  })
})

describe('a request', () => {
  test.each(SETTLED_STATES.flatMap((state) => KINDS.map((kind) => ({ state, kind }))))(
    'of $kind to a sandbox that is $state is answered by the table, and its answer is a row',
    async ({ state, kind }) => {
      const before = await ledger.at(state)
      const history = await listEvents(database.db, before.id)
      const { answer, operation, sandbox } = await ledger.ask(before.id, kind)
      const expected = {
        running: { spawn: 'already_done', resume: 'already_done' },
        suspended: { resume: 'work', destroy: 'work' },
        gone: { kill: 'already_done', destroy: 'already_done' },
      } as Record<string, Record<string, string>>
      const usual = { running: 'work', suspended: 'already_done', gone: 'refused' }[state]
      expect(answer).toBe(expected[state]?.[kind] ?? usual)
      const status = { work: 'active', already_done: 'succeeded', refused: 'refused' }[answer as 'work']
      expect(operation).toMatchObject({ kind, status, sandbox_id: sandbox.id })
      const told = (await listEvents(database.db, before.id)).slice(history.length)
      if (answer === 'work') {
        expect(told).toMatchObject([{ from_state: state, to_state: sandbox.state, operation_id: operation.id }])
      } else {
        expect(told).toEqual([])
        expect(sandbox).toEqual(before)
      }
    },
  )

  test('that is already done on a suspended sandbox is answered with its checkpoint', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    expect(checkpoint_id).toMatch(/^ckpt_/)
    for (const kind of ['pause', 'snapshot', 'kill'] as const) {
      expect((await ledger.ask(id, kind)).operation).toMatchObject({ outcome: 'already_done', checkpoint_id })
    }
  })

  test('equal to the one in flight joins it, and has its result', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause')
    const second = await ledger.ask(id, 'pause')
    expect(second).toMatchObject({ answer: 'join', operation: { id: first.operation.id } })
    await ledger.perform(first.operation.id)
    expect(await ledger.operations(id)).toMatchObject([{ kind: 'spawn' }, { kind: 'pause', outcome: 'done' }])
  })

  test('with other options is another request', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'snapshot', { options: { name: 'a' } })
    expect(await ledger.ask(id, 'snapshot', { options: { name: 'b' } })).toMatchObject({ answer: 'wait' })
    expect(await ledger.ask(id, 'snapshot', { options: { name: 'b' } })).toMatchObject({ answer: 'join' })
    const { next } = await ledger.perform(first.operation.id)
    await ledger.perform(next?.operationId as string)
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', id).execute()
    expect(checkpoints).toMatchObject([{ kind: 'snapshot' }, { kind: 'snapshot' }])
  })

  test('overtakes nobody: what equals one further ahead waits, so that the last word is the last', async () => {
    const { id } = await ledger.at('running')
    await ledger.ask(id, 'pause')
    await ledger.ask(id, 'resume')
    expect(await ledger.ask(id, 'pause')).toMatchObject({ answer: 'wait' })
    await ledger.drain(id)
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'suspended', waiting: 0 })
  })

  test.each(['pause', 'kill', 'destroy'] as const)(
    'for a snapshot during a %s is refused at once, and changes nothing',
    async (kind) => {
      const { id } = await ledger.at('running')
      const { sandbox: before } = await ledger.ask(id, kind)
      const { answer, operation, sandbox } = await ledger.ask(id, 'snapshot')
      expect(answer).toBe('refused')
      expect(operation).toMatchObject({
        status: 'refused',
        error: { error_type: 'invalid_transition', retryable: false },
      })
      expect(operation.error?.message).toContain(id)
      expect(sandbox).toEqual(before)
      await ledger.drain(id)
    },
  )

  test('to a line that is full is refused, and told to come back', async () => {
    const { id } = await ledger.at('running')
    await ledger.ask(id, 'pause')
    for (let n = 0; n < LINE_MAX; n++) {
      expect(await ledger.ask(id, n % 2 === 0 ? 'resume' : 'pause')).toMatchObject({ answer: 'wait' })
    }
    expect((await ledger.ask(id, 'kill')).operation.error).toMatchObject({
      error_type: 'rate_limited',
      retryable: true,
    })
    expect(await ledger.ask(id, 'pause')).toMatchObject({ answer: 'join' })
    await ledger.drain(id)
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'suspended', waiting: 0, tail_id: null })
  })

  test('to a sandbox that is not there, or is another fleet’s, says so and writes nothing', async () => {
    const { id } = await ledger.at('running')
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    for (const ask of [() => stranger.ask(id, 'destroy'), () => ledger.ask('sbx_nothing', 'kill')]) {
      await expect(ask()).rejects.toMatchObject({
        code: 'sandbox_not_found',
        message: expect.stringContaining('sbx_'),
      })
    }
    expect(await ledger.operations(id)).toHaveLength(1)
  })

  test('to pause what cannot pause is refused, and it keeps running; unless the caller would rather see it gone', async () => {
    const { id } = await ledger.at('running', { canPause: false })
    const refused = await ledger.ask(id, 'pause')
    expect(refused.operation.error).toMatchObject({ error_type: 'pause_unsupported', retryable: false })
    expect(refused.sandbox.state).toBe('running')
    const allowed = await ledger.ask(id, 'pause', { options: { if_unsupported: 'kill' } })
    expect(allowed.sandbox.state).toBe('killing')
    const { sandbox } = await ledger.perform(allowed.operation.id)
    expect(sandbox).toMatchObject({ state: 'gone', gone_reason: 'pause_unsupported' })
  })

  test('to snapshot what cannot be copied while it runs is refused', async () => {
    const { id } = await ledger.at('running', { canSnapshot: false })
    const { operation } = await ledger.ask(id, 'snapshot')
    expect(operation.error).toMatchObject({ error_type: 'snapshot_unsupported' })
  })

  test('fifty times at once has one performer and fifty equal answers', async () => {
    const { id } = await ledger.at('running')
    const answers = await Promise.all(Array.from({ length: 50 }, () => ledger.ask(id, 'pause')))
    expect(new Set(answers.map(({ operation }) => operation.id)).size).toBe(1)
    expect(answers.filter(({ answer }) => answer === 'work')).toHaveLength(1)
    expect(answers.filter(({ answer }) => answer === 'join')).toHaveLength(49)
    await ledger.drain(id)
  })
})

describe('a kill that meets a pause', () => {
  test('is already done when the pause works, whether it came during the pause or after it', async () => {
    const during = await ledger.at('running')
    const pause = await ledger.ask(during.id, 'pause')
    const kill = await ledger.ask(during.id, 'kill')
    expect(kill.answer).toBe('wait')
    const settled = await ledger.perform(pause.operation.id)
    expect(settled).toMatchObject({ sandbox: { state: 'suspended' }, next: undefined, answered: [kill.operation.id] })
    expect(await ledger.statusOf(kill.operation.id)).toEqual({ status: 'succeeded', outcome: 'already_done' })

    const after = await ledger.at('suspended')
    expect(await ledger.ask(after.id, 'kill')).toMatchObject({
      answer: 'already_done',
      sandbox: { state: 'suspended' },
    })
  })

  test('does its work when the pause fails', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const kill = await ledger.ask(id, 'kill')
    const settled = await ledger.perform(pause.operation.id, 'fails')
    expect(settled).toMatchObject({
      operation: { status: 'failed' },
      sandbox: { state: 'killing', operation_id: kill.operation.id },
      next: { operationId: kill.operation.id, kind: 'kill' },
    })
    await ledger.drain(id)
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'gone', gone_reason: 'killed' })
    expect((await listEvents(database.db, id)).map(({ type }) => type)).toEqual([
      'spawn_began',
      'spawned',
      'pause_began',
      'pause_failed',
      'teardown_began',
      'ended',
    ])
  })
})

test('a request, a take and a settle are one round trip each, and a join is two', async () => {
  const statements: string[] = []
  const counted = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: database.pool }),
    log: ({ query }) => {
      statements.push(query.sql)
    },
  }).withSchema(SCHEMA)
  const counting = ledgerOn(counted, { fleet: ledger.fleet, clock })
  const { id } = await ledger.at('running')
  const count = async <T>(step: Promise<T>, roundTrips = 1): Promise<T> => {
    statements.length = 0
    const result = await step
    expect(statements).toHaveLength(roundTrips)
    return result
  }
  await count(counting.spawn({ idempotencyKey: 'k' }))
  const pause = await count(counting.ask(id, 'pause', { idempotencyKey: 'l' }))
  await count(counting.ask(id, 'pause'), 2) // who joins is shown the operation as it is then
  await count(counting.ask(id, 'resume'))
  const taken = await count(counting.begin(pause.operation.id))
  await count(counting.end(taken.attempt, endingOf(taken, 'works')))
})
