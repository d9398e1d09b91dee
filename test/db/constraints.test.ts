import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { listEvents } from '../../src/db/events.ts'
import { endExecution, startExecution } from '../../src/db/executions.ts'
import { pruneEvents } from '../../src/db/prune.ts'
import type { SandboxRow } from '../../src/db/schema.ts'
import { CHECKPOINT_KINDS, CHECKPOINT_STATUSES } from '../../src/sandbox/checkpoints.ts'
import { EXECUTION_REASONS } from '../../src/sandbox/executions.ts'
import { KINDS } from '../../src/sandbox/judge.ts'
import { OPERATION_OUTCOMES, OPERATION_STATUSES } from '../../src/sandbox/operations.ts'
import { GONE_REASONS, STATES } from '../../src/sandbox/states.ts'
import { stoppedClock } from '../support/clock.ts'
import { type LedgerTest, ledgerOn, useLedger } from '../support/ledger.ts'

/** Somebody with a database prompt and the worst intentions, or a bug in a later release. */
let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

/** Tries it, and says which rule forbade it. */
async function forbiddenBy(statement: string, ...values: unknown[]): Promise<string> {
  return database.pool.query(statement, values).then(
    ({ rowCount }) => `nothing: ${rowCount} rows`,
    (error: { constraint?: string; message: string }) => error.constraint ?? error.message,
  )
}

describe('suspended', () => {
  test('needs a checkpoint', async () => {
    const { id } = await ledger.at('running')
    expect(await forbiddenBy(`update sandman.sandboxes set state = 'suspended' where id = $1`, id)).toBe(
      'sandboxes_suspended_has_checkpoint',
    )
  })

  test('needs one that is its own', async () => {
    const { id } = await ledger.at('running')
    const { checkpoint_id } = await ledger.at('suspended')
    const steal = `update sandman.sandboxes set state = 'suspended', checkpoint_id = $2 where id = $1`
    expect(await forbiddenBy(steal, id, checkpoint_id)).toBe('sandboxes_checkpoint_is_ready')
  })

  test('needs one that is ready, and stays ready', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    for (const status of ['missing', 'deleted']) {
      expect(await forbiddenBy(`update sandman.checkpoints set status = $2 where id = $1`, checkpoint_id, status)).toBe(
        'sandboxes_checkpoint_is_ready',
      )
    }
    expect(await forbiddenBy(`delete from sandman.checkpoints where id = $1`, checkpoint_id)).toMatch(
      /^sandboxes_|_fkey$/,
    )
    expect(await forbiddenBy(`update sandman.sandboxes set checkpoint_id = null where id = $1`, id)).toBe(
      'sandboxes_suspended_has_checkpoint',
    )
    expect(await forbiddenBy(`update sandman.sandboxes set state = 'running' where id = $1`, id)).toBe(
      'sandboxes_suspended_has_checkpoint',
    )
  })

  test('and resuming keeps it', async () => {
    const { id } = await ledger.at('suspended')
    await ledger.ask(id, 'resume')
    expect(await forbiddenBy(`update sandman.sandboxes set checkpoint_id = null where id = $1`, id)).toBe(
      'sandboxes_suspended_has_checkpoint',
    )
  })

  test('a checkpoint that is lost does not come back, and none changes hands', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    await ledger.perform((await ledger.ask(id, 'resume')).operation.id)
    const set = (change: string) => forbiddenBy(`update sandman.checkpoints set ${change} where id = $1`, checkpoint_id)
    expect(await set(`status = 'ready'`)).toBe('checkpoints_do_not_come_back')
    expect(await set(`status = 'missing'`)).toBe('checkpoints_do_not_come_back')
    expect(await set(`provider_ref = 'another'`)).toBe('checkpoints_identity_stays')
  })

  test('a checkpoint is ready only when it has been seen', async () => {
    const { id } = await ledger.at('running')
    const claim = `insert into sandman.checkpoints (id, sandbox_id, kind, status, provider_ref, created_at)
      values ('ckpt_claimed', $1, 'pause', 'ready', 'x', now())`
    expect(await forbiddenBy(claim, id)).toBe('checkpoints_ready_was_seen')
  })
})

describe('gone', () => {
  test('has a reason and a time, and nothing else has', async () => {
    const { id } = await ledger.at('running')
    for (const change of [
      `state = 'gone'`,
      `state = 'gone', gone_reason = 'killed'`,
      `state = 'gone', gone_at = now()`,
      `gone_reason = 'killed'`,
      `gone_at = now()`,
    ]) {
      expect(await forbiddenBy(`update sandman.sandboxes set ${change} where id = $1`, id)).toBe(
        'sandboxes_gone_has_reason_and_time',
      )
    }
  })

  test('is final, with its reason and its time', async () => {
    const { id } = await ledger.at('gone')
    for (const change of [
      `state = 'running', gone_reason = null, gone_at = null`,
      `gone_reason = 'expired'`,
      `gone_at = now()`,
    ]) {
      expect(await forbiddenBy(`update sandman.sandboxes set ${change} where id = $1`, id)).toBe(
        'sandboxes_gone_is_final',
      )
    }
  })
})

describe('a sandbox in flight', () => {
  test('has an active operation of its own, and one that rests has none', async () => {
    const { id, operation_id } = (await ledger.spawn()).sandbox
    const other = await ledger.at('running')
    const rest = `operation_id = null, ring_at = null, tail_id = null, tail_fingerprint = null`
    expect(await forbiddenBy(`update sandman.sandboxes set ${rest} where id = $1`, id)).toBe(
      'sandboxes_in_flight_has_operation',
    )
    expect(await forbiddenBy(`update sandman.sandboxes set state = 'pausing' where id = $1`, other.id)).toBe(
      'sandboxes_in_flight_has_operation',
    )
    const borrow = `update sandman.sandboxes set state = 'pausing', operation_id = $2, ring_at = now(), tail_id = $2,
      tail_fingerprint = 'x' where id = $1`
    expect(await forbiddenBy(borrow, other.id, operation_id)).toMatch(/sandboxes_operation/)
    const finish = `update sandman.operations set status = 'succeeded', outcome = 'done', settled_at = now() where id = $1`
    expect(await forbiddenBy(finish, operation_id)).toBe('sandboxes_operation_is_active')
  })

  test('is always rung for again, and its line has an end', async () => {
    const { id } = (await ledger.spawn()).sandbox
    expect(await forbiddenBy(`update sandman.sandboxes set ring_at = null where id = $1`, id)).toBe(
      'sandboxes_operation_is_rung_again',
    )
    expect(await forbiddenBy(`update sandman.sandboxes set tail_id = null where id = $1`, id)).toBe(
      'sandboxes_line_has_an_end',
    )
    const resting = await ledger.at('running')
    expect(await forbiddenBy(`update sandman.sandboxes set waiting = 1 where id = $1`, resting.id)).toBe(
      'sandboxes_line_is_behind_an_operation',
    )
  })
})

describe('an operation', () => {
  const insert = (columns: string) => `insert into sandman.operations (id, sandbox_id, kind, created_at, ${columns})`

  test('is the only active one of its sandbox', async () => {
    const { sandbox } = await ledger.spawn()
    expect(
      await forbiddenBy(
        `${insert('status, started_at')} values ('op_two', $1, 'kill', now(), 'active', now())`,
        sandbox.id,
      ),
    ).toBe('operations_one_active')
  })

  test('cannot be at work on a sandbox that rests, or is at work on something else', async () => {
    const { id } = await ledger.at('running')
    expect(
      await forbiddenBy(`${insert('status, started_at')} values ('op_two', $1, 'kill', now(), 'active', now())`, id),
    ).toBe('operations_active_is_at_work')
  })

  test('never stands directly behind an equal', async () => {
    const { sandbox, operation } = await ledger.spawn()
    const line = `with second as (${insert('status, judgement, options')}
        select 'op_two', $1, kind, now(), 'waiting', '{"running": 1, "suspended": 1, "gone": 1}', options
        from sandman.operations where id = $2 returning *)
      update sandman.sandboxes set waiting = 1, tail_id = second.id, tail_fingerprint = second.fingerprint
      from second where sandboxes.id = second.sandbox_id`
    expect(await forbiddenBy(line, sandbox.id, operation.id)).toBe('line_is_in_order')
  })

  test('neither joins nor leaves a line behind the back of its sandbox', async () => {
    const { sandbox } = await ledger.spawn()
    const { operation } = await ledger.ask(sandbox.id, 'pause')
    const judgement = `'{"running": 1, "suspended": 1, "gone": 1}'`
    for (const [statement, id] of [
      [
        `update sandman.operations set status = 'refused', error = '{"error_type": "", "message": "", "retryable": true}',
        settled_at = now() where id = $1`,
        operation.id,
      ],
      [`${insert('status, judgement')} values ('op_two', $1, 'kill', now(), 'waiting', ${judgement})`, sandbox.id],
      ['update sandman.sandboxes set waiting = 0 where id = $1', sandbox.id],
      ['update sandman.sandboxes set waiting = 2 where id = $1', sandbox.id],
      ['update sandman.sandboxes set tail_id = operation_id where id = $1', sandbox.id],
      [`update sandman.sandboxes set tail_fingerprint = 'x' where id = $1`, sandbox.id],
    ]) {
      expect(await forbiddenBy(statement as string, id)).toBe('line_is_in_order')
    }
    const forget = `update sandman.operations set judgement = '{}' where id = $1`
    expect(await forbiddenBy(forget, operation.id)).toBe('operations_waiting_knows_what_for')
    const resting = await ledger.at('running')
    const wait = `${insert('status, judgement')} values ('op_two', $1, 'kill', now(), 'waiting', ${judgement})`
    expect(await forbiddenBy(wait, resting.id)).toBe('line_is_in_order')
    await ledger.drain(sandbox.id)
  })

  test('has a fence exactly when it was attempted, and a result of its own sandbox', async () => {
    const { operation } = await ledger.spawn()
    expect(await forbiddenBy(`update sandman.operations set attempt = 1 where id = $1`, operation.id)).toBe(
      'operations_attempt_has_fence',
    )
    const { checkpoint_id } = await ledger.at('suspended')
    const borrow = `update sandman.operations set checkpoint_id = $2 where id = $1`
    expect(await forbiddenBy(borrow, operation.id, checkpoint_id)).toBe('operations_checkpoint_is_its_own')
  })

  test('is deleted only by pruning, and so are keys and executions', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'resume', { idempotencyKey: 'kept' })
    await ledger.execute(id)
    expect(await forbiddenBy(`delete from sandman.operations where id = $1`, operation.id)).toBe(
      'operations_are_only_pruned',
    )
    expect(await forbiddenBy(`delete from sandman.idempotency_keys where key = 'kept'`)).toBe(
      'idempotency_keys_are_only_pruned',
    )
    expect(await forbiddenBy(`truncate sandman.idempotency_keys`)).toBe('idempotency_keys_are_not_truncated')
    expect(await forbiddenBy(`delete from sandman.executions where sandbox_id = $1`, id)).toBe(
      'executions_are_only_pruned',
    )
  })

  test('that has ended never changes again', async () => {
    const { id } = await ledger.at('running')
    const [spawn] = await ledger.operations(id)
    for (const change of [`status = 'active', outcome = null`, `taken_by = 'me'`, `attempt = 9`, `id = id`]) {
      expect(await forbiddenBy(`update sandman.operations set ${change} where id = $1`, spawn?.id)).toBe(
        'operations_end_is_final',
      )
    }
  })

  test('says how it ended, and nothing before that', async () => {
    const { id } = await ledger.at('running')
    const ended = (values: string) =>
      forbiddenBy(`${insert('status, outcome, error, settled_at')} values ('op_x', $1, 'kill', now(), ${values})`, id)
    expect(await ended(`'succeeded', null, null, now()`)).toBe('operations_success_has_outcome')
    expect(await ended(`'failed', null, null, now()`)).toBe('operations_failure_has_error')
    expect(await ended(`'failed', null, '{"message": "it broke"}', now()`)).toBe('operations_error_is_told')
    expect(await ended(`'succeeded', 'done', null, null`)).toBe('operations_end_has_time')
    expect(await ended(`'waiting', null, null, null`)).toBe('operations_waiting_knows_what_for')
    expect(await ended(`'active', null, null, null`)).toBe('operations_active_has_started')
  })

  test('never asks for something else than it did', async () => {
    const { operation } = await ledger.spawn()
    expect(await forbiddenBy(`update sandman.operations set kind = 'kill' where id = $1`, operation.id)).toBe(
      'operations_request_stays',
    )
    expect(await forbiddenBy(`update sandman.operations set options = '{"a":1}' where id = $1`, operation.id)).toBe(
      'operations_request_stays',
    )
  })

  test('is what its idempotency key names, for ever', async () => {
    const { operation } = await ledger.spawn({ idempotencyKey: 'k' })
    const other = await ledger.spawn()
    const rename = `update sandman.idempotency_keys set operation_id = $2 where operation_id = $1`
    expect(await forbiddenBy(rename, operation.id, other.operation.id)).toBe('idempotency_keys_stay')
    const again = `insert into sandman.idempotency_keys values ($1, 'k', $2, now())`
    expect(await forbiddenBy(again, ledger.fleet, other.operation.id)).toBe('idempotency_keys_pkey')
  })
})

test('a time to live is longer than nothing, and an event about a state knows it', async () => {
  const { id } = await ledger.at('running')
  for (const column of ['idle_ttl_ms', 'hard_ttl_ms', 'retention_ms']) {
    expect(await forbiddenBy(`update sandman.sandboxes set ${column} = 0 where id = $1`, id)).toBe(
      'sandboxes_ttl_positive',
    )
  }
  const tell = (to: string, fence: string) =>
    forbiddenBy(
      `insert into sandman.events (sandbox_id, at, type, to_state, fence) values ($1, now(), 'x', '${to}', ${fence})`,
      id,
    )
  expect(await tell('asleep', '1')).toBe('events_state_known')
  expect(await tell('running', 'null')).toBe('events_move_has_fence')
})

test('a fence only grows, and who a sandbox is never changes', async () => {
  const { sandbox, operation } = await ledger.spawn()
  await ledger.begin(operation.id)
  expect(await forbiddenBy(`update sandman.sandboxes set fence = 0 where id = $1`, sandbox.id)).toBe(
    'sandboxes_fence_only_grows',
  )
  expect(await forbiddenBy(`update sandman.operations set fence = 0 where id = $1`, operation.id)).toBe(
    'operations_fence_only_grows',
  )
  for (const change of [`fleet = 'x'`, `backend = 'x'`, `created_at = now()`]) {
    expect(await forbiddenBy(`update sandman.sandboxes set ${change} where id = $1`, sandbox.id)).toBe(
      'sandboxes_identity_stays',
    )
  }
})

describe('an execution', () => {
  let sandbox: SandboxRow
  beforeEach(async () => {
    sandbox = await ledger.at('running')
  })

  test('is queued, runs and ends, each with its event', async () => {
    const { id, status } = await ledger.execute(sandbox.id, { command: ['make', 'it'], hardDeadlineMs: 60_000 })
    expect(id).toMatch(/^exe_/)
    expect(status).toBe('queued')
    expect(await startExecution(database.db, { id, incarnation: 'one', clock })).toMatchObject({ status: 'running' })
    expect(await startExecution(database.db, { id, incarnation: 'two', clock })).toBeUndefined()
    const end = { status: 'failed', reason: 'oom_killed', exitCode: 137 } as const
    const ended = await endExecution(database.db, { id, end, clock })
    expect(ended?.execution).toMatchObject({
      status: 'failed',
      reason: 'oom_killed',
      exit_code: 137,
      incarnation: 'one',
      command: ['make', 'it'],
      hard_deadline_at: new Date('2026-03-01T12:01:00Z'),
      ended_at: new Date('2026-03-01T12:00:00Z'),
    })
    const told = (await listEvents(database.db, sandbox.id)).filter(({ execution_id }) => execution_id === id)
    expect(told).toMatchObject([
      { type: 'execution_queued' },
      { type: 'execution_started' },
      { type: 'execution_ended', detail: { status: 'failed', reason: 'oom_killed', exit_code: 137 } },
    ])
  })

  test('ends once, whoever says so how often', async () => {
    const { id } = await ledger.execute(sandbox.id)
    const ends = await Promise.all(
      Array.from({ length: 10 }, () =>
        endExecution(database.db, { id, end: { status: 'cancelled', reason: 'cancelled' }, clock }),
      ),
    )
    expect(ends.filter((end) => end !== undefined)).toHaveLength(1)
    const told = (await listEvents(database.db, sandbox.id)).filter(({ type }) => type === 'execution_ended')
    expect(told).toHaveLength(1)
    expect(await forbiddenBy(`update sandman.executions set status = 'running' where id = $1`, id)).toBe(
      'executions_end_is_final',
    )
  })

  test('has a reason and a time exactly when it has ended, and succeeds only with exit code 0', async () => {
    const { id } = await ledger.execute(sandbox.id)
    const set = (change: string) => forbiddenBy(`update sandman.executions set ${change} where id = $1`, id)
    expect(await set(`status = 'failed', ring_at = null`)).toBe('executions_end_has_reason_and_time')
    expect(await set(`status = 'failed', reason = 'error', ring_at = null`)).toBe('executions_end_has_reason_and_time')
    expect(await set(`status = 'running', incarnation = 'one'`)).toBe('executions_running_has_started')
    expect(await set(`status = 'running', started_at = now()`)).toBe('executions_running_has_incarnation')
    expect(await set(`ring_at = null`)).toBe('executions_open_is_rung_again')
    expect(await set(`hard_deadline_at = now() + interval '1 year'`)).toBe('executions_deadlines_stay')
    expect(await set(`silence_ms = 1`)).toBe('executions_deadlines_stay')
    expect(
      await set(`status = 'succeeded', reason = 'completed', ended_at = now(), exit_code = 1, ring_at = null`),
    ).toBe('executions_success_is_exit_0')
  })

  test('needs a sandbox of its fleet', async () => {
    await expect(ledger.execute(sandbox.id, { fleet: 'elsewhere' })).rejects.toMatchObject({
      code: 'sandbox_not_found',
    })
  })
})

describe('history', () => {
  test('is not rewritten, and is deleted only by pruning', async () => {
    const { id } = await ledger.at('running')
    expect(await forbiddenBy(`update sandman.events set type = 'x' where sandbox_id = $1`, id)).toBe(
      'events_are_not_rewritten',
    )
    expect(await forbiddenBy(`delete from sandman.events where sandbox_id = $1`, id)).toBe('events_are_only_pruned')
    expect(await forbiddenBy(`truncate sandman.events`)).toBe('events_are_not_truncated')
    expect(await listEvents(database.db, id)).toHaveLength(2)
  })

  test('is pruned in bounded batches, and never to the point where the present cannot be explained', async () => {
    const old = stoppedClock('2020-01-01T00:00:00Z')
    const past = ledgerOn(database.db, { fleet: ledger.fleet, clock: old })
    const { id } = await past.at('suspended')
    const young = await ledger.at('running')
    const { id: executionId } = await past.execute(id)
    const prune = (max: number) =>
      pruneEvents(database.db, { fleet: ledger.fleet, olderThanMs: 365 * 86_400_000, max, clock })
    const left = async () => (await listEvents(database.db, id)).map(({ type }) => type)
    expect(await prune(2)).toEqual({ forgotten: 2, isEnd: false })
    expect(await left()).toEqual(['pause_began', 'paused', 'execution_queued'])
    expect(await prune(100)).toEqual({ forgotten: 2, isEnd: true })
    expect(await prune(100)).toEqual({ forgotten: 0, isEnd: true })
    expect(await left()).toEqual(['paused'])
    await endExecution(database.db, { id: executionId, end: { status: 'cancelled', reason: 'cancelled' }, clock: old })
    expect(await left()).toEqual(['paused', 'execution_ended'])
    expect(await listEvents(database.db, young.id)).toHaveLength(2)
    expect(await forbiddenBy(`delete from sandman.events where sandbox_id = $1`, id)).toBe('events_are_only_pruned')
  })
})

test('the database knows the same words as the code', async () => {
  const { rows } = await sql<{ name: string; definition: string }>`
    select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint where conname like '%\\_known'`.execute(
    database.db,
  )
  const words = Object.fromEntries(
    rows.map(({ name, definition }) => [name, [...definition.matchAll(/'(\w+)'/g)].map(([, word]) => word).toSorted()]),
  )
  expect(words.sandboxes_state_known).toEqual(STATES.toSorted())
  expect(words.sandboxes_gone_reason_known).toEqual(GONE_REASONS.toSorted())
  expect(words.operations_kind_known).toEqual(KINDS.toSorted())
  expect(words.operations_status_known).toEqual(OPERATION_STATUSES.toSorted())
  expect(words.operations_outcome_known).toEqual(OPERATION_OUTCOMES.toSorted())
  expect(words.checkpoints_kind_known).toEqual(CHECKPOINT_KINDS.toSorted())
  expect(words.checkpoints_status_known).toEqual(CHECKPOINT_STATUSES.toSorted())
  expect(words.executions_reason_known).toEqual(Object.keys(EXECUTION_REASONS).toSorted())
})
