import { randomUUID } from 'node:crypto'
import { Kysely, PostgresDialect } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runningClock } from '../../src/clock.ts'
import { listEvents } from '../../src/db/events.ts'
import { claimUnheard } from '../../src/db/ring-due.ts'
import { type Database, type OperationRow, SCHEMA } from '../../src/db/schema.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { KINDS, LINE_MAX } from '../../src/sandbox/judge.ts'
import { SETTLED_STATES } from '../../src/sandbox/states.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { endingOf, type Ledger, ledgerOn } from '../support/ledger.ts'

let database: TestDatabase
let ledger: Ledger
let clock: ReturnType<typeof stoppedClock>

beforeAll(async () => {
  database = await createDatabase()
})
beforeEach(() => {
  clock = stoppedClock('2026-03-01T12:00:00Z')
  ledger = ledgerOn(database.db, { fleet: randomUUID(), clock })
  return () => ledger.expectInvariants()
})
afterAll(() => database.drop())

const statusOf = async (id: string): Promise<Partial<OperationRow>> => {
  const { status, outcome } = await database.db
    .selectFrom('operations')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return { status, outcome }
}

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
    expect(await statusOf(kill.operation.id)).toEqual({ status: 'succeeded', outcome: 'already_done' })

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

describe('an idempotency key', () => {
  const key = 'a-key'

  test('makes a repeated request the same operation, also long after it has settled', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause', { idempotencyKey: key })
    await ledger.drain(id)
    await ledger.ask(id, 'resume')
    await ledger.drain(id)
    const again = await ledger.ask(id, 'pause', { idempotencyKey: key })
    expect(again).toMatchObject({ answer: 'repeated', operation: { id: first.operation.id, status: 'succeeded' } })
    expect(again.sandbox.state).toBe('running')
  })

  test('also names the operation that its request joined', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause')
    await ledger.ask(id, 'pause', { idempotencyKey: key })
    await ledger.drain(id)
    await ledger.ask(id, 'resume')
    await ledger.drain(id)
    expect(await ledger.ask(id, 'pause', { idempotencyKey: key })).toMatchObject({
      answer: 'repeated',
      operation: { id: first.operation.id },
    })
  })

  test('makes a repeated spawn the same sandbox', async () => {
    const first = await ledger.spawn({ idempotencyKey: key, spec: { template: 'a' } })
    const again = await ledger.spawn({ idempotencyKey: key, spec: { template: 'a' } })
    expect(again).toMatchObject({ answer: 'repeated', sandbox: { id: first.sandbox.id } })
    for (const other of [{ spec: { template: 'b' } }, { backend: 'other' }, { metadata: { owner: 'you' } }]) {
      const reuse = ledger.spawn({ idempotencyKey: key, spec: { template: 'a' }, ...other })
      await expect(reuse).rejects.toMatchObject({ code: 'idempotency_key_reused' })
    }
    const { count } = await database.db
      .selectFrom('sandboxes')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('fleet', '=', ledger.fleet)
      .executeTakeFirstOrThrow()
    expect(count).toBe(1)
  })

  test('cannot name two requests', async () => {
    const { id } = await ledger.at('running')
    const other = await ledger.at('running')
    const first = await ledger.ask(id, 'snapshot', { idempotencyKey: key })
    for (const reuse of [
      () => ledger.ask(id, 'kill', { idempotencyKey: key }),
      () => ledger.ask(id, 'snapshot', { idempotencyKey: key, options: { name: 'x' } }),
      () => ledger.ask(other.id, 'snapshot', { idempotencyKey: key }),
      () => ledger.spawn({ idempotencyKey: key }),
    ]) {
      await expect(reuse()).rejects.toMatchObject({
        code: 'idempotency_key_reused',
        message: expect.stringContaining(first.operation.id),
      })
    }
    expect(await ledger.operations(id)).toHaveLength(2)
    expect(await ledger.operations(other.id)).toHaveLength(1)
  })

  test('twenty times at once is one spawn', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ledger.spawn({ idempotencyKey: key })))
    expect(new Set(answers.map(({ sandbox }) => sandbox.id)).size).toBe(1)
    expect(answers.filter(({ answer }) => answer === 'work')).toHaveLength(1)
  })

  test('belongs to its fleet', async () => {
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    const mine = await ledger.spawn({ idempotencyKey: key })
    const theirs = await stranger.spawn({ idempotencyKey: key })
    expect(theirs.answer).toBe('work')
    expect(theirs.sandbox.id).not.toBe(mine.sandbox.id)
  })
})

describe('a worker', () => {
  test('takes an operation with a fence of its own, and finds with it all that it needs', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    const { operation } = await ledger.ask(id, 'resume')
    clock.advance(5_000)
    const taken = await ledger.begin(operation.id, 'worker-7')
    expect(taken).toMatchObject({
      operation: { id: operation.id, attempt: 1, taken_by: 'worker-7', taken_at: new Date('2026-03-01T12:00:05Z') },
      sandbox: { id, state: 'resuming' },
      checkpoint: { id: checkpoint_id, status: 'ready' },
    })
    const again = await ledger.begin(operation.id)
    expect(again.operation.attempt).toBe(2)
    expect(again.attempt.fence).toBe(taken.attempt.fence + 1)
  })

  test('finds nothing to take before its turn, after the end, or in another fleet', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause')
    const second = await ledger.ask(id, 'resume')
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    expect(await ledger.tryBegin(second.operation.id)).toEqual({ attempt: undefined, because: 'waiting' })
    expect(await ledger.tryBegin('op_nothing')).toEqual({ attempt: undefined, because: 'unknown' })
    expect(await stranger.tryBegin(first.operation.id)).toEqual({ attempt: undefined, because: 'unknown' })
    await ledger.drain(id)
    expect(await ledger.tryBegin(first.operation.id)).toEqual({ attempt: undefined, because: 'ended' })
  })

  test('that was presumed dead changes nothing when it comes back, and is told so', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'pause')
    const slow = await ledger.begin(operation.id, 'slow')
    const quick = await ledger.begin(operation.id, 'quick')
    const before = await ledger.sandbox(id)
    expect(await ledger.tryEnd(slow.attempt, endingOf(slow, 'loses'))).toEqual({ settled: false })
    expect(await ledger.sandbox(id)).toEqual(before)
    await ledger.end(quick.attempt, endingOf(quick, 'works'))
    expect(await ledger.tryEnd(slow.attempt, endingOf(slow, 'loses'))).toEqual({ settled: false })
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'suspended' })
  })

  test('of another fleet cannot settle', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'kill')
    const taken = await ledger.begin(operation.id)
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    const attempt = { ...taken.attempt, fleet: stranger.fleet }
    expect(await stranger.tryEnd(attempt, endingOf(taken, 'works'))).toEqual({ settled: false })
  })

  test('cannot store a pause that left no checkpoint as suspended', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'pause')
    const { attempt } = await ledger.begin(operation.id)
    const lie = ledger.tryEnd(attempt, { status: 'succeeded', outcome: 'done', rest: { state: 'suspended' } })
    await expect(lie).rejects.toMatchObject({ constraint: 'sandboxes_suspended_has_checkpoint' })
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'pausing', operation_id: operation.id })
  })

  test('cannot move a sandbox where no move leads', async () => {
    const spawned = await ledger.spawn()
    const { attempt } = await ledger.begin(spawned.operation.id)
    const checkpoint = { kind: 'pause', providerRef: 'x' } as const
    const lie = ledger.tryEnd(attempt, {
      status: 'succeeded',
      outcome: 'done',
      rest: { state: 'suspended', checkpoint },
    })
    await expect(lie).rejects.toThrow('no move leads from provisioning to suspended')
    expect(await ledger.sandbox(spawned.sandbox.id)).toMatchObject({ state: 'provisioning' })
  })
})

describe('settling', () => {
  test('a resume that failed keeps the checkpoint, and one that lost it says which', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    const first = await ledger.ask(id, 'resume')
    const failed = await ledger.perform(first.operation.id, 'fails')
    expect(failed.sandbox).toMatchObject({ state: 'suspended', checkpoint_id })

    const second = await ledger.ask(id, 'resume')
    const { attempt } = await ledger.begin(second.operation.id)
    const lost = await ledger.end(attempt, {
      status: 'failed',
      error: failure('checkpoint_missing', 'the provider does not have it', checkpoint_id as string),
      rest: { state: 'gone', reason: 'checkpoint_missing' },
      checkpoints: { which: 'own', are: 'missing' },
      evidence: { status: 404 },
    })
    expect(lost.sandbox).toMatchObject({ state: 'gone', gone_reason: 'checkpoint_missing', checkpoint_id: null })
    expect(lost.operation.error).toMatchObject({ error_type: 'checkpoint_missing', checkpoint_id })
    const last = (await listEvents(database.db, id)).at(-1)
    expect(last).toMatchObject({
      type: 'ended',
      from_state: 'resuming',
      detail: { reason: 'checkpoint_missing', evidence: { status: 404 }, error: { checkpoint_id } },
    })
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', id).execute()
    expect(checkpoints).toMatchObject([{ id: checkpoint_id, status: 'missing' }])
  })

  test('a destroy forgets every checkpoint, and one that failed forgets none', async () => {
    const { id } = await ledger.at('running')
    await ledger.perform((await ledger.ask(id, 'snapshot')).operation.id)
    await ledger.perform((await ledger.ask(id, 'pause')).operation.id)
    const failed = await ledger.perform((await ledger.ask(id, 'destroy')).operation.id, 'fails')
    expect(failed.sandbox.state).toBe('suspended')
    await ledger.perform((await ledger.ask(id, 'destroy')).operation.id)
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', id).execute()
    expect(checkpoints.map(({ kind, status }) => [kind, status])).toEqual([
      ['snapshot', 'deleted'],
      ['pause', 'deleted'],
    ])
  })

  test('answers those who have nothing to do, and calls the first who has', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const [spawn, kill, resume, snapshot, destroy] = [
      await ledger.ask(id, 'spawn'),
      await ledger.ask(id, 'kill'),
      await ledger.ask(id, 'resume'),
      await ledger.ask(id, 'pause'),
      await ledger.ask(id, 'destroy'),
    ]
    const settled = await ledger.perform(pause.operation.id)
    expect(settled).toMatchObject({
      answered: [spawn.operation.id, kill.operation.id],
      next: { operationId: resume.operation.id, kind: 'resume' },
      sandbox: { state: 'resuming', waiting: 2, tail_id: destroy.operation.id },
    })
    expect(await statusOf(snapshot.operation.id)).toEqual({ status: 'waiting', outcome: null })
    await ledger.drain(id)
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'gone', gone_reason: 'destroyed' })
  })

  test('a respawn begins a new life under the same id, without the thread of the old one', async () => {
    const { id, provider_ref } = await ledger.at('gone', { agentThreadId: 'thread' })
    const { sandbox, operation } = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
    expect(sandbox).toMatchObject({
      id,
      state: 'provisioning',
      gone_reason: null,
      provider_ref: null,
      agent_thread_id: null,
    })
    const settled = await ledger.perform(operation.id)
    expect(settled).toMatchObject({ operation: { outcome: 'respawned' }, sandbox: { state: 'running' } })
    expect(settled.sandbox.provider_ref).not.toBe(provider_ref)
  })

  test('a loss is followed by the respawn that waits for it', async () => {
    const { id } = await ledger.at('suspended', { agentThreadId: 'thread' })
    const resume = await ledger.ask(id, 'resume')
    const respawn = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
    const lost = await ledger.perform(resume.operation.id, 'loses')
    expect(lost).toMatchObject({
      sandbox: { state: 'provisioning', gone_reason: null, agent_thread_id: null, provider_ref: null },
      next: { operationId: respawn.operation.id },
    })
    await ledger.drain(id)
    expect(await statusOf(respawn.operation.id)).toEqual({ status: 'succeeded', outcome: 'respawned' })
  })
})

describe('an operation that nobody has heard of', () => {
  const claim = (max = 10) => claimUnheard(database.db, { fleet: ledger.fleet, max, clock })

  test('comes up to be rung for again, once for each wait, until it has settled', async () => {
    const { sandbox, operation } = await ledger.spawn()
    clock.advance(9_999)
    expect(await claim()).toEqual([])
    clock.advance(1)
    expect(await claim()).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    expect(await claim()).toEqual([])
    clock.advance(10_000)
    expect(await claim()).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    await ledger.drain(sandbox.id)
    clock.advance(3_600_000)
    expect(await claim()).toEqual([])
  })

  test('is rung for when it is due, however many requests join its line meanwhile; the oldest first', async () => {
    const young = await ledger.spawn()
    const { sandbox, operation } = await ledger.spawn()
    await database.pool.query(`update sandman.sandboxes set ring_at = ring_at - interval '1 second' where id = $1`, [
      sandbox.id,
    ])
    clock.advance(5_000)
    await ledger.ask(sandbox.id, 'pause')
    await ledger.ask(sandbox.id, 'pause')
    clock.advance(5_000)
    expect(await claim(1)).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    expect(await claim(1)).toEqual([{ operationId: young.operation.id, kind: 'spawn' }])
  })

  test('is left alone for longer once a worker has taken it, and then comes up as well', async () => {
    const { operation } = await ledger.spawn()
    await ledger.begin(operation.id)
    clock.advance(59_999)
    expect(await claim()).toEqual([])
    clock.advance(1)
    expect(await claim()).toHaveLength(1)
  })

  test('comes up as well when it was next in line and its caller died before it rang', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const resume = await ledger.ask(id, 'resume')
    await ledger.perform(pause.operation.id)
    clock.advance(10_000)
    expect(await claim()).toEqual([{ operationId: resume.operation.id, kind: 'resume' }])
  })

  test('is given to one of many who ask, in bounded batches, and never to another fleet', async () => {
    const operations = []
    for (let n = 0; n < 25; n++) operations.push((await ledger.spawn()).operation.id)
    clock.advance(10_000)
    expect(await claimUnheard(database.db, { fleet: randomUUID(), max: 10, clock })).toEqual([])
    const claims = await Promise.all([claim(), claim(), claim(), claim()])
    for (const claimed of claims) expect(claimed.length).toBeLessThanOrEqual(10)
    const claimed = [...claims.flat(), ...(await claim(25))].map(({ operationId }) => operationId)
    expect(claimed.toSorted()).toEqual(operations.toSorted())
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
